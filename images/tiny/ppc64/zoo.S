/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only. */
#include "arch.h"
#include "asm.h"

/* Offsets of the parts of a doubleword, by significance. */
#ifdef __LITTLE_ENDIAN__
#define LOWEST_HALF 0
#define SECOND_BYTE 1
#else
#define LOWEST_HALF 6
#define SECOND_BYTE 6
#endif

	.text
	.balign 16
function instruction_zoo /* r3: a number; returns another */
#if _CALL_ELF == 2
	addis r2, r12, .TOC. - instruction_zoo@ha
	addi r2, r2, .TOC. - instruction_zoo@l
	.localentry instruction_zoo, . - instruction_zoo
#endif
	mflr r0
	std r0, 16(r1)
	std r30, -16(r1)
	std r31, -8(r1)
	stdu r1, -208(r1)
	mr r30, r3

	/* arithmetic, shifts, bits */
	lis r4, 0x193
	ori r4, r4, 0x100
	mullw r31, r30, r4
	rotlwi r5, r30, 5
	rlwinm r6, r31, 7, 3, 28
	xor r31, r31, r6
	rlwimi r31, r5, 4, 8, 19
	rldicl r7, r31, 13, 40
	rldimi r31, r7, 3, 50
	srawi r8, r5, 3
	sradi r9, r31, 7
	mulhwu r10, r5, r4
	mulld r11, r10, r9
	maddld r31, r8, r10, r31
	subf r31, r5, r31
	cntlzw r12, r31
	cnttzd r3, r31
	add r31, r31, r12
	add r31, r31, r3
	popcntd r3, r31
	extsh r4, r31
	ori r4, r4, 1
	divwu r6, r31, r4
	modsw r7, r31, r4
	addc r31, r31, r6
	adde r31, r31, r7
	addze r31, r31
	subfe r8, r3, r31
	neg r8, r8
	cmpwi cr1, r8, 0
	isel r9, r31, r8, 4
	mcrf cr5, cr1
	crxor 2, 4, 6
	cror 22, 2, 21
	mfocrf r10, 0x04
	add r31, r9, r10
	mtcrf 0x80, r31
	mfcr r11
	rlwinm r11, r11, 0, 0, 3
	add r31, r31, r11
	mfxer r12
	mtxer r12
	andis. r12, r12, 0x2000
	add r31, r31, r12
	addpcis r3, 0 /* reads the pc; the result is not used */
	nand r4, r31, r5
	bpermd r6, r4, r31
	cmpb r7, r4, r31
	prtyw r8, r4
	add r31, r6, r7
	add r31, r31, r8
	sync
	lwsync
	eieio
	isync
	dcbt 0, r1

	/* constants behind the table of contents, with an index, in pairs, the other way round */
	addis r3, r2, zoo_word@toc@ha
	lwa r4, zoo_word@toc@l(r3)
	xor r31, r31, r4
	addis r5, r2, zoo_table@toc@ha
	addi r5, r5, zoo_table@toc@l
	rlwinm r6, r31, 2, 28, 29
	lwzx r7, r5, r6
	add r31, r31, r7
	lwbrx r8, 0, r5
	stwu r31, 48(r1)
	lwz r9, 0(r1)
	addi r1, r1, -48
	sub r31, r8, r9
	std r31, 56(r1)
	addi r9, r1, 48
	lhau r10, 8 + LOWEST_HALF(r9)
	add r31, r31, r10
#ifndef __LITTLE_ENDIAN__ /* these two are not allowed in little-endian mode */
	stmw r30, 64(r1)
	mr r8, r30
	mr r9, r31
	lmw r30, 64(r1) /* the lower words of both */
	clrldi r10, r9, 32
	sub r31, r31, r10
	add r31, r31, r9
	mr r30, r8
#endif
	lbz r11, 56 + SECOND_BYTE(r1)
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
	addis r8, r2, zoo_branches@toc@ha
	addi r8, r8, zoo_branches@toc@l
	lwax r9, r8, r7
	add r8, r8, r9
	mtctr r8
	bctr
.Lseven:
	addi r31, r31, 7
.Leight:
	xori r31, r31, 0xff
.Lnine:
	mr r3, r31
	bl CODE(zoo_helper)
	nop
	mr r31, r3
	addis r9, r2, zoo_pointer@toc@ha
	ld r12, zoo_pointer@toc@l(r9)
	std r2, 24(r1)
	call_r12
	ld r2, 24(r1)
	clrldi r3, r3, 32
	addi r1, r1, 208
	ld r30, -16(r1)
	ld r31, -8(r1)
	ld r0, 16(r1)
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
	.long .Lseven - zoo_branches, .Leight - zoo_branches, .Lnine - zoo_branches, .Leight - zoo_branches
zoo_table:
	.long 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe
	.balign 8
zoo_pointer:
	.quad zoo_helper
