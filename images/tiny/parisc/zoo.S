/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only. */
#include "arch.h"
#include "asm.h"

	.text
function instruction_zoo /* r26: a number; returns another */
	stw %rp, -20(%r30)
	stwm %r3, 64(%r30)
	stw %r4, -60(%r30)
	copy %r26, %r3
	/* arithmetic with every kind of condition; nullified instructions behind it */
	ldil L%0x12345000, %r19
	ldo 0x678(%r19), %r19
	add,uv %r3, %r19, %r20
	ldo 1(%r20), %r20
	sub,<<= %r20, %r19, %r21
	xor %r20, %r21, %r20
	sh1add %r20, %r3, %r22
	sh2add,od %r22, %r20, %r22
	uxor,nbz %r22, %r19, %r21
	andcm %r22, %r19, %r22
	uaddcm %r22, %r21, %r21
	addc %r21, %r22, %r20
	subb %r20, %r3, %r21
	subi 77, %r21, %r22
	subi,< -3, %r22, %r20
	or %r20, %r21, %r20
	addi,ev 5, %r20, %r20
	xor %r20, %r22, %r20
	addi,tr 9, %r20, %r20
	ldo 1000(%r20), %r20
	comclr,<> %r20, %r21, %r22
	and %r20, %r19, %r22
	comiclr,> 7, %r22, %r21
	add,l %r20, %r22, %r20
	mtsar %r20
	shrpw %r20, %r19, %sar, %r21
	shrpw,= %r21, %r20, 13, %r22
	extrw,s %r22, 20, 9, %r21
	extrw,u,<> %r21, %sar, 7, %r22
	depw %r22, 12, 5, %r20
	depw,z,od %r20, %sar, 11, %r21
	depwi -3, 9, 4, %r20
	depwi,z 5, %sar, 6, %r22
	xor %r20, %r21, %r20
	add,l %r20, %r22, %r20
	ldi 29, %r21
	ds %r0, %r21, %r0
	ds %r20, %r21, %r22
	addc %r20, %r22, %r20
	.word 0x000014b6 /* mfia %r22; the result is not used */
	sub %r22, %r22, %r22
	/* memory */
	stw %r20, -56(%r30)
	ldo -51(%r30), %r22
	stby,b %r19, 0(%r22)
	stby,e %r20, 1(%r22)
	ldh -56(%r30), %r21
	ldb -53(%r30), %r22
	xor %r21, %r22, %r21
	ldo -64(%r30), %r22
	ldwm 8(%r22), %r1
	add,l %r1, %r21, %r21
	sths,mb %r21, -2(%r22)
	ldbs,ma 1(%r22), %r1
	xor %r1, %r20, %r20
	ldo -64(%r30), %r22
	ldi 2, %r1
	ldwx,s %r1(%r22), %r0
	ldo -48(%r30), %r22
	depwi 0, 31, 4, %r22
	stw %r20, 0(%r22)
	ldcw 0(%r22), %r21
	add,l %r20, %r21, %r20
	/* branches of every kind, with and without a nullified delay slot */
	ldi 5, %r4
1:	addib,> -1, %r4, 1b
	sh1add %r20, %r20, %r20
	ldi 3, %r4
2:	add,l %r20, %r4, %r20
	addib,<>,n -1, %r4, 2b
	xor %r20, %r19, %r20 /* nullified when the loop ends */
	cmpb,<,n %r20, %r0, 3f
	ldo 21(%r20), %r20
3:	cmpib,<< 9, %r20, 4f
	ldo 3(%r20), %r20
	uaddcm %r0, %r20, %r20
4:	bb,<,n %r20, 17, 5f
	ldo 77(%r20), %r20
5:	movb,tr %r20, %r4, 6f
	ldo 1(%r20), %r20
	ldo 1000(%r20), %r20
6:	movib,< -1, %r21, 7f
	nop
	ldo 3000(%r20), %r20
7:	extrw,u %r20, 31, 2, %r21
	blr %r21, %r0
	copy %r20, %r4
	b 8f
	ldo 7(%r4), %r4
	b 8f
	xor %r4, %r19, %r4
	b,n 8f
	nop
	b 8f
	sub %r4, %r19, %r4
	/* calls */
8:	bl zoo_helper, %rp
	copy %r4, %r26
	copy %r28, %r26
	bl,n zoo_helper, %rp
	nop
	ldil L%zoo_helper, %r1
	ldo R%zoo_helper(%r1), %r1
	ble 0(%sr7, %r1)
	copy %r31, %rp
	bl 9f, %rp
	copy %r28, %r26
9:	ldo 4f - 9b(%rp), %rp
	b zoo_helper
	ldo 4(%r26), %r26
	nop
4:	ldw -84(%r30), %rp
	ldw -60(%r30), %r4
	bv %r0(%rp)
	ldwm -64(%r30), %r3
end instruction_zoo

function zoo_helper
	depw,z %r26, 18, 19, %r1
	xor %r26, %r1, %r26
	extrw,u %r26, 14, 15, %r1
	bv %r0(%rp)
	xor %r26, %r1, %r28
end zoo_helper
