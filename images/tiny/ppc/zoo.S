/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only. */
#include "arch.h"
#include "asm.h"

	.text
	.balign 16
function instruction_zoo /* r3: a number; returns another */
	mflr r0
	stw r0, 4(r1)
	stwu r1, -112(r1)
	stmw r30, 104(r1)
	mr r30, r3

	/* arithmetic, shifts, bits */
	lis r4, 0x193
	ori r4, r4, 0x100
	mullw r31, r30, r4
	rotlwi r5, r30, 5
	rlwinm r6, r31, 7, 3, 28
	xor r31, r31, r6
	rlwimi r31, r5, 4, 8, 19
	rlwnm r7, r31, r5, 2, 30
	add r31, r31, r7
	srawi r8, r5, 3
	sraw r9, r31, r8
	mulhwu r10, r5, r4
	mulhw r11, r10, r9
	subf r31, r5, r31
	add r31, r31, r11
	cntlzw r12, r31
	add r31, r31, r12
	extsh r4, r31
	ori r4, r4, 1
	divwu r6, r31, r4
	divw r7, r31, r4
	addc r31, r31, r6
	adde r31, r31, r7
	addze r31, r31
	subfe r8, r12, r31
	neg r8, r8
	addo. r9, r31, r8
	mcrxr cr3
	cmpwi cr1, r8, 0
	mcrf cr5, cr1
	crxor 2, 4, 6
	cror 22, 2, 21
	crnand 12, 5, 22
	mfcr r10
	rlwinm r10, r10, 0, 20, 23
	add r31, r9, r10
	mtcrf 0x80, r31
	mfcr r11
	rlwinm r11, r11, 0, 0, 3
	add r31, r31, r11
	mfxer r12
	mtxer r12
	andis. r12, r12, 0x2000
	add r31, r31, r12
	nand r4, r31, r5
	eqv r6, r4, r31
	orc r7, r6, r5
	andc r8, r31, r5
	subfic r6, r6, 77
	addme r7, r7
	add r31, r31, r8
	xor r31, r31, r6
	add r31, r31, r7
	sync
	eieio
	isync
	dcbt 0, r1

	/* constants, with an index, the other way round, strings, many at once */
	lis r3, zoo_word@ha
	lha r4, zoo_word@l(r3)
	xor r31, r31, r4
	lis r5, zoo_table@ha
	addi r5, r5, zoo_table@l
	rlwinm r6, r31, 2, 28, 29
	lwzx r7, r5, r6
	add r31, r31, r7
	lwbrx r8, 0, r5
	stwu r31, 48(r1)
	lwz r9, 0(r1)
	addi r1, r1, -48
	sub r31, r8, r9
	stw r31, 56(r1)
	addi r9, r1, 48
	lhau r10, 10(r9)
	add r31, r31, r10
	stmw r30, 64(r1)
	mr r8, r30
	lmw r30, 64(r1)
	mr r30, r8
	addi r6, r1, 64
	lswi r9, r6, 7
	stswi r9, r6, 5
	lwz r9, 64(r1)
	add r31, r31, r9
	add r31, r31, r10
	lbz r11, 57(r1)
	add r31, r31, r11

	/* load-and-reserve and store-conditional */
	addi r4, r1, 72
	stw r31, 72(r1)
1:	lwarx r5, 0, r4
	addi r5, r5, 77
	stwcx. r5, 0, r4
	bne- 1b
	lwz r31, 72(r1)

	/* branches on counters and conditions, calls in every way */
	li r5, 5
	mtctr r5
2:	slwi r6, r31, 1
	add r31, r31, r6
	bdnz 2b
	mtctr r5
	cmpwi cr7, r31, 0
3:	addi r31, r31, 3
	bdnzt 28, 3b
	bcl 20, 31, 4f
4:	mflr r6 /* the get-pc idiom; the result is not used */
	andi. r7, r31, 1
	crclr 26
	beqlr- cr6 /* never taken */
	bne+ 5f
	not r31, r31
5:	rlwinm r7, r31, 2, 28, 29
	lis r8, zoo_branches@ha
	addi r8, r8, zoo_branches@l
	lwzx r9, r8, r7
	mtctr r9
	bctr
.Lseven:
	addi r31, r31, 7
.Leight:
	xori r31, r31, 0xff
.Lnine:
	mr r3, r31
	bl zoo_helper
	lis r9, zoo_pointer@ha
	lwz r12, zoo_pointer@l(r9)
	mtctr r12
	bctrl
	lmw r30, 104(r1)
	addi r1, r1, 112
	lwz r0, 4(r1)
	mtlr r0
	blr
end instruction_zoo

function zoo_helper /* returns by another register */
	mflr r11
	slwi r4, r3, 13
	xor r3, r3, r4
	srwi r4, r3, 17
	xor r3, r3, r4
	mtctr r11
	bctr
end zoo_helper

	.section .rodata
	.balign 8
zoo_word:
	.long 0x85c9e1f2
zoo_branches:
	.long .Lseven, .Leight, .Lnine, .Leight
zoo_table:
	.long 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe
zoo_pointer:
	.long zoo_helper
