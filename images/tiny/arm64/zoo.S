/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only. */
#include "arch.h"

	.text
	.globl instruction_zoo
	.type instruction_zoo, @function
instruction_zoo: /* w0: a number; returns another */
	stp x29, x30, [sp, #-64]!
	mov x29, sp
	stp x19, x20, [sp, #16]
	mov w19, w0

	/* arithmetic, shifts, bits */
	movz w1, #0x193
	movk w1, #0x100, lsl #16
	mul w20, w19, w1
	ror w0, w19, #27
	extr w2, w0, w20, #7
	eor w20, w20, w2, lsr #3
	bfi w20, w0, #4, #9
	ubfx w3, w20, #11, #13
	sbfx w4, w0, #3, #17
	umull x5, w3, w4
	smulh x6, x5, x4
	madd w20, w3, w4, w20
	msub w20, w0, w3, w20
	clz w7, w20
	rbit w8, w20
	rev w9, w8
	add w20, w20, w9, asr #2
	orr w3, w3, #1
	udiv w10, w20, w3
	sdiv w11, w4, w3
	adds w20, w20, w10
	adc w20, w20, w11
	sbcs w20, w20, w7
	csel w12, w20, w9, cs
	csinc w12, w12, w8, ne
	csinv w13, w12, w20, mi
	cset w14, vs
	ccmp w12, w13, #4, ne
	cinc w20, w20, eq
	add w20, w20, w13
	add w20, w20, w14
	crc32w w20, w20, w12
	mrs x15, nzcv
	msr nzcv, x15
	hint #0
	prfm pldl1keep, [sp]

	/* literals and addresses */
	ldr w1, zoo_word
	eor w20, w20, w1
	ldr x2, zoo_long
	add x20, x20, x2, lsr #32
	ldrsw x3, zoo_word
	add w20, w20, w3, asr #5
	prfm pldl1keep, zoo_long
	adr x4, zoo_word
	ldr w5, [x4]
	eor w20, w20, w5, lsl #1
	adrp x6, zoo_table
	add x6, x6, :lo12:zoo_table
	and w7, w20, #3
	ldr w8, [x6, w7, uxtw #2]
	add w20, w20, w8

	/* pairs, with and without write-back */
	stp w20, w8, [sp, #-16]!
	ldp w9, w10, [sp], #16
	sub w20, w9, w10, lsl #2
	str x20, [sp, #40]
	ldrb w11, [sp, #41]
	ldrsh w12, [sp, #40]
	add w20, w20, w11
	add w20, w20, w12

	/* exclusive and ordered accesses */
	add x13, sp, #48
	stlr w20, [x13]
1:	ldxr w14, [x13]
	add w14, w14, #77
	stxr w15, w14, [x13]
	cbnz w15, 1b
	ldar w20, [x13]
	dmb ish

	/* branches on registers and bits */
	mov w1, #5
2:	add w20, w20, w20, lsl #1
	sub w1, w1, #1
	cbnz w1, 2b
	cbz w1, 3f
	mvn w20, w20
3:	tbz w20, #3, 4f
	eor w20, w20, #0x55555555
4:	tbnz w20, #17, 5f
	ror w20, w20, #9
5:	cmp w20, #0
	b.lt 6f
	neg w20, w20
6:	and w2, w20, #3
	adr x3, zoo_branches
	ldrsw x4, [x3, w2, uxtw #2]
	add x3, x3, x4
	br x3
.Lseven:
	add w20, w20, #7
.Leight:
	eor w20, w20, #0xff
.Lnine:
	mov w0, w20
	bl zoo_helper
	mov w20, w0
	adr x9, zoo_helper
	blr x9
	mov w20, w0
	adrp x10, zoo_pointer
	ldr x10, [x10, :lo12:zoo_pointer]
	blr x10

	ldp x19, x20, [sp, #16]
	ldp x29, x30, [sp], #64
	ret
	.size instruction_zoo, . - instruction_zoo

	.globl zoo_helper
	.type zoo_helper, @function
zoo_helper: /* returns by another register */
	mov x11, x30
	eor w0, w0, w0, lsl #13
	eor w0, w0, w0, lsr #17
	ret x11
	.size zoo_helper, . - zoo_helper

	/* Near the literal loads that use it. Data inside the function would be probed too. */
	.section .rodata
	.balign 8
zoo_long:
	.quad 0x0badcafe13572468
zoo_word:
	.word 0x85c9e1f2
zoo_branches:
	.word .Lseven - zoo_branches, .Leight - zoo_branches, .Lnine - zoo_branches, .Leight - zoo_branches
	.balign 8
zoo_table:
	.word 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe
zoo_pointer:
	.quad zoo_helper
