/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only, and is
 * the same in A32 and T32 code. */
#include "arch.h"

	.syntax unified
#ifdef __thumb__
	.thumb
#define WIDE(instruction) instruction.w
#else
	.arm
#define WIDE(instruction) instruction
#endif
	.text
	.globl instruction_zoo
	.type instruction_zoo, %function
instruction_zoo: /* r0: a number; returns another */
	push {r4-r11, lr}
	sub sp, sp, #36
	mov r4, r0

	/* arithmetic, shifts, bits */
	movw r1, #0x193
	movt r1, #0x100
	mul r5, r4, r1
	ror r0, r4, #27
	eor r5, r5, r0, lsr #3
	bfi r5, r0, #4, #9
	ubfx r3, r5, #11, #13
	sbfx r6, r0, #3, #17
	umull r7, r8, r3, r5
	smlal r7, r8, r6, r3
	umaal r7, r8, r5, r6
	mla r5, r3, r7, r8
	mls r5, r0, r3, r5
	clz r7, r5
	rbit r8, r5
	rev r9, r8
	rev16 r10, r5
	add r5, r5, r9, ror #5
	sxtb r11, r10
	uxtah r5, r5, r11
	rsb r5, r5, #17
	adds r5, r5, r10
	adcs r5, r5, r9
	sbcs r5, r5, r7
	mrs r12, cpsr
	msr cpsr_f, r12
	rrx r6, r5
	ssat r3, #12, r6
	usat r7, #9, r5
	qadd r8, r5, r6
	uadd8 r9, r8, r5
	sel r9, r9, r3
	usada8 r5, r9, r6, r7
	pkhbt r5, r5, r8, lsl #7
	mov r1, #11
	lsl r2, r5, r1
	asr r3, r5, r1
	eor r5, r2, r3

	/* conditions */
	cmp r5, r9
	ite hi
	addhi r5, r5, #5
	subls r5, r5, #7
	tst r5, #4
	ittee ne
	eorne r5, r5, #0x80
	movne r1, #3
	moveq r1, #9
	addeq r5, r5, r1
	teq r5, r8
	it pl
	mvnpl r5, r5
	cmp r5, #0
	ittet mi
	rsbmi r5, r5, #0
	ldrmi r2, .Lword
	ldrpl r2, .Lword_2
	eormi r5, r5, r2
	it vc
	addvc r5, r5, r2

	/* literals and addresses */
	ldr r1, .Lword
	eor r5, r5, r1
	adr r2, .Lword
	ldr r3, [r2, #4]
	add r5, r5, r3, asr #5
	ldrd r6, r7, [r2]
	sub r5, r5, r7
	ldr r3, =zoo_table
	and r6, r5, #3
	ldr r8, [r3, r6, lsl #2]
	add r5, r5, r8
	pld [r3]

	/* several registers, with and without write-back */
	mov r9, sp
	stmia r9!, {r1, r5, r6, r8}
	ldmdb r9!, {r0, r2}
	sub r5, r0, r2, lsl #2
	mov r1, r5
	strd r0, r1, [sp, #16]
	ldrb r1, [sp, #21]
	ldrsh r2, [sp, #18]
	add r5, r5, r1
	add r5, r5, r2
	push {r5}
	ldr r6, [sp], #4
	strh r6, [sp, #24]!
	ldrh r7, [sp], #-24
	add r5, r5, r7

	/* exclusive accesses */
	add r9, sp, #32
	str r5, [r9]
1:	ldrex r1, [r9]
	add r1, r1, #77
	strex r2, r1, [r9]
	cmp r2, #0
	bne 1b
	dmb
	mov r5, r1

	/* branches */
	mov r1, #5
2:	add r5, r5, r5, lsl #1
	subs r1, r1, #1
	bne 2b
#ifdef __thumb__
	cbz r1, 3f
	mvn r5, r5
3:	and r2, r5, #3
	ldr r3, =zoo_branches
	tbb [r3, r2]
.Lfour:
#else
	cmp r1, #0
	beq 3f
	mvn r5, r5
3:	and r2, r5, #3
	add pc, pc, r2, lsl #2
	nop
	b .Lfive
	b .Lsix
	b .Lseven
	b .Lsix
#endif
.Lfive:
	WIDE(add) r5, r5, #7
.Lsix:
	WIDE(eor) r5, r5, #0xff
.Lseven:
	mov r0, r5
	bl zoo_helper
	ldr r1, =zoo_helper
	blx r1
	ldr r1, =zoo_pointer
	mov r5, r0
	bl 8f
	add sp, sp, #36
	pop {r4-r11, pc}
8:	push {lr}
	ldr r2, [r1]
	mov r0, r5
	blx r2
	ldr pc, [sp], #4
	.balign 8
.Lword:
	.word 0x85c9e1f2
.Lword_2:
	.word 0x0badcafe
	.ltorg
	.size instruction_zoo, . - instruction_zoo

	.globl zoo_helper
	.type zoo_helper, %function
zoo_helper: /* returns by a load of several registers */
	push {r4, lr}
	eor r4, r0, r0, lsl #13
	eor r0, r4, r4, lsr #17
	pop {r4, pc}
	.size zoo_helper, . - zoo_helper

	.section .rodata
#ifdef __thumb__
zoo_branches:
	.byte (.Lfive - .Lfour) / 2, (.Lsix - .Lfour) / 2, (.Lseven - .Lfour) / 2, (.Lsix - .Lfour) / 2
#endif
	.balign 4
zoo_table:
	.word 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe
zoo_pointer:
	.word zoo_helper
