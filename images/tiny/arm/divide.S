/* Division helpers of the compiler: this CPU has no division instruction. */
	.syntax unified
#ifdef __thumb__
	.thumb
#else
	.arm
#endif
	.text
	.globl __aeabi_uidivmod, __aeabi_uidiv
	.type __aeabi_uidivmod, %function
	.type __aeabi_uidiv, %function
__aeabi_uidivmod:
__aeabi_uidiv: /* r0 by r1: quotient in r0, remainder in r1; undefined for a zero divisor */
	mov r2, r0
	mov r0, #0
	cmp r1, #0
	it eq
	bxeq lr
	clz r3, r1
	mov r12, #1
	lsl r1, r1, r3
	lsl r12, r12, r3
1:	cmp r2, r1
	itt cs
	subcs r2, r2, r1
	orrcs r0, r0, r12
	lsr r1, r1, #1
	lsrs r12, r12, #1
	bne 1b
	mov r1, r2
	bx lr
	.size __aeabi_uidivmod, . - __aeabi_uidivmod
	.size __aeabi_uidiv, . - __aeabi_uidiv
