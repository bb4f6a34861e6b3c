/* Helpers of the compiler: this CPU multiplies and divides in software. Arguments are in r26 and r25, the result is in r29 and the return
   address in r31; 64-bit ones are ordinary functions. */
#include "asm.h"

	.text
	.macro millicode name
	.globl \name
	.type \name, @function
\name:
	.endm

	/* The product. Changes r1, r25, r26. */
	millicode $$mulI
	copy %r0, %r29
1:	extrw,u,= %r25, 31, 1, %r1
	add,l %r29, %r26, %r29
	extrw,u %r25, 30, 31, %r25
	cmpb,<> %r0, %r25, 1b
	add,l %r26, %r26, %r26
	bv,n %r0(%r31)
	end $$mulI

	/* r26 by r25: quotient in r29, remainder in r1. By 32 divide steps; a divisor with its highest bit goes in once at most. */
	.macro divide
	cmpb,<,n %r25, %r0, 2f
	copy %r0, %r1
	sub %r0, %r25, %r29
	ds %r0, %r29, %r0 /* V := the subtraction */
	addc %r26, %r26, %r26
	.rept 31
	ds %r1, %r25, %r1
	addc %r26, %r26, %r26
	.endr
	ds %r1, %r25, %r1
	addc %r26, %r26, %r29
	comiclr,<= 0, %r1, %r0
	add,l %r1, %r25, %r1
	b,n 3f
2:	copy %r26, %r1
	copy %r0, %r29
	cmpb,<<,n %r26, %r25, 3f
	sub %r26, %r25, %r1
	ldi 1, %r29
3:
	.endm

	millicode $$divU
	divide
	bv,n %r0(%r31)
	end $$divU

	millicode $$remU
	divide
	bv %r0(%r31)
	copy %r1, %r29
	end $$remU

	/* The remainder has the sign of the dividend. */
	millicode $$remI
	comiclr,<= 0, %r25, %r0
	sub %r0, %r25, %r25
	cmpb,<,n %r26, %r0, 1f
	divide
	bv %r0(%r31)
	copy %r1, %r29
1:	sub %r0, %r26, %r26
	divide
	bv %r0(%r31)
	sub %r0, %r1, %r29
	end $$remI

/* 64-bit products: r26 (low) and r25 (high) by r24 and r23. */
function __muldi3
	copy %r0, %r29
	copy %r0, %r28
1:	bb,>=,n %r24, 31, 2f
	add %r29, %r26, %r29
	addc %r28, %r25, %r28
2:	shrpw %r23, %r24, 1, %r24
	extrw,u %r23, 30, 31, %r23
	add %r26, %r26, %r26
	addc %r25, %r25, %r25
	or,= %r23, %r24, %r0
	b,n 1b
	bv,n %r0(%rp)
end __muldi3

/* Shifts of 64 bits, in r25 (high) and r26 (low), by r24. */
function __lshrdi3
	bb,<,n %r24, 26, 1f
	mtsar %r24
	shrpw %r25, %r26, %sar, %r29
	shrpw %r0, %r25, %sar, %r28
	bv,n %r0(%rp)
1:	mtsar %r24
	shrpw %r0, %r25, %sar, %r29
	copy %r0, %r28
	bv,n %r0(%rp)
end __lshrdi3

function __ashldi3
	cmpb,=,n %r0, %r24, 3f
	bb,<,n %r24, 26, 1f
	subi 32, %r24, %r1
	mtsar %r1
	shrpw %r25, %r26, %sar, %r28
	shrpw %r26, %r0, %sar, %r29
	bv,n %r0(%rp)
1:	subi 64, %r24, %r1
	ldi 32, %r19
	cmpb,= %r1, %r19, 2f
	mtsar %r1
	shrpw %r26, %r0, %sar, %r28
	copy %r0, %r29
	bv,n %r0(%rp)
2:	copy %r26, %r28
	copy %r0, %r29
	bv,n %r0(%rp)
3:	copy %r25, %r28
	copy %r26, %r29
	bv,n %r0(%rp)
end __ashldi3
