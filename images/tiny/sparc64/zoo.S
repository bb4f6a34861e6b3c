/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only. */
#include "arch.h"
#include "asm.h"

	.text
function instruction_zoo /* o0: a number; returns another */
	save %sp, -(FRAME + 64), %sp
	srl %i0, 0, %l0

	/* arithmetic, shifts, bits; both sets of condition codes */
	sethi %hi(0x1930000), %l1
	or %l1, 0x100, %l1
	mulx %l0, %l1, %l2
	srlx %l2, 27, %l3
	xnor %l2, %l3, %l2
	sdivx %l2, 77, %l4
	udivx %l2, 13, %l5
	xor %l4, %l5, %l2
	umul %l0, %l1, %l4
	rd %y, %l5
	smul %l4, %l5, %l4
	wr %l0, 0x55, %y
	addcc %l2, %l4, %l2
	addc %l2, 3, %l2
	subcc %l2, %l5, %l2
	subc %l2, %l4, %l3
	taddcc %l3, %l0, %l4
	tsubcc %l3, %l0, %l5
	orncc %l4, %l5, %l4
	andncc %l3, %l4, %l3
	orcc %l3, %l2, %l3
	xorcc %l3, %l4, %l3
	xnorcc %l3, 77, %l3
	rd %ccr, %l4
	add %l3, %l4, %l3
	wr %g0, 0x5a, %ccr
	rd %ccr, %l4
	add %l3, %l4, %l3
	rd %asi, %l4
	rd %fprs, %l4
	sra %l3, 7, %l4
	srax %l3, 9, %l5
	sllx %l4, %l0, %l4
	sll %l5, 3, %l5
	add %l3, %l4, %l3
	xor %l3, %l5, %l3
	cmp %l3, %l0
	movg %xcc, 21, %l4
	movle %icc, %l3, %l4
	movcs %xcc, -5, %l5
	movrz %l4, 7, %l5
	movrgez %l3, %l4, %l5
	add %l3, %l5, %l3
	mova %xcc, %l3, %l2
	andn %l2, 0xff, %l4
	rdpr %pil, %l5
	rdpr %cwp, %l5
	rdpr %canrestore, %l5
	rdpr %tick, %l5 /* the result is not used */
	membar #StoreLoad
	prefetch [%sp + BIAS], #n_reads
	cmp %g0, %g0
	tne %icc, 5 /* not taken */
	rd %pc, %l4
	rd %pc, %l5
	sub %l5, %l4, %l5
	add %l3, %l5, %l3

	/* memory: all widths, signed and unsigned, atomically */
	add %sp, BIAS + FRAME, %l6
	stx %l3, [%l6]
	stw %l2, [%l6 + 8]
	sth %l2, [%l6 + 12]
	stb %l2, [%l6 + 14]
	stb %l3, [%l6 + 15]
	ldsw [%l6 + 4], %l4
	ldsh [%l6 + 10], %l5
	add %l4, %l5, %l4
	ldsb [%l6 + 9], %l5
	xor %l4, %l5, %l4
	lduh [%l6 + 12], %l5
	add %l4, %l5, %l4
	ldub [%l6 + 1], %l5
	sub %l4, %l5, %l4
	ldd [%l6 + 8], %o2
	add %o2, %o3, %o2
	std %o2, [%l6 + 16]
	ldstub [%l6 + 16], %l5
	swap [%l6 + 20], %l4
	ldx [%l6], %l1
	mov %l4, %o1
	casx [%l6], %l1, %o1
	lduw [%l6], %l1
	cas [%l6], %l1, %l5
	wr %g0, 0x80, %asi
	ldxa [%l6 + 8] %asi, %o3
	stxa %o3, [%l6 + 24] %asi
	lduba [%l6] 0x80, %o4
	ldxa [%l6] 0x88, %o5 /* the other byte order */
	xor %l3, %o5, %l3
	add %l3, %o4, %l3
	xor %l3, %o3, %l3
	setx zoo_table, %o3, %o2
	and %l3, 3, %o3
	sllx %o3, 2, %o3
	lduw [%o2 + %o3], %o3
	add %l3, %o3, %l3

	/* branches of every kind, with an instruction in each delay slot */
	mov 5, %l1
1:	sllx %l3, 1, %l4
	brgz,pt %l1, 1b
	 sub %l1, 1, %l1
	brlz,a,pt %l1, 2f
	 add %l3, 21, %l3 /* executed: taken */
	add %l3, 1000, %l3
2:	brgez,a,pn %l1, 3f
	 add %l3, 3000, %l3 /* annulled: not taken */
	xor %l3, 0x55, %l3
3:	brlez,pn %l1, 4f
	 sub %l3, %l1, %l3
	xor %l3, 0x66, %l3
4:	brz,a,pn %l1, 5f
	 add %l3, 9, %l3
	brnz,pt %l1, 5f
	 add %l3, 19, %l3
	add %l3, 2000, %l3
5:	cmp %l3, %l0
	bg,a 6f
	 add %l3, 1, %l3
	not %l3, %l3
6:	ble,a,pn %icc, 7f
	 add %l3, 5, %l3
	bgu,pt %xcc, 7f
	 add %l3, 6, %l3
	xor %l3, 77, %l3
7:	bcs,a 8f
	 add %l3, 2, %l3
	bpos 8f
	 add %l3, 4, %l3
	bvs,a,pn %icc, 8f
	 add %l3, 8, %l3
8:	ba 9f
	 add %l3, 16, %l3
	add %l3, 2000, %l3
9:	ba,a 10f
	add %l3, 2000, %l3
10:	bn 11f
	add %l3, 32, %l3
	bn,a 11f
	 add %l3, 2000, %l3
11:	ba,a,pt %xcc, 12f
	add %l3, 2000, %l3
12:	and %l3, 3, %l4
	setx zoo_branches, %o3, %o2
	sllx %l4, 3, %l4
	ldx [%o2 + %l4], %l4
	jmp %l4
	 srl %l3, 0, %l5
.Lseven:
	add %l5, 7, %l5
.Leight:
	xor %l5, 0xff, %l5

	/* calls, in every way; their arguments are computed in the delay slots */
.Lnine:
	call zoo_helper
	 mov %l5, %o0
	setx zoo_pointer, %o3, %o2
	ldx [%o2], %o2
	jmpl %o2, %o7
	 add %o0, 4, %o0
	setx zoo_other, %o3, %o2
	jmpl %o2, %o5
	 xor %o0, 3, %o0
	call zoo_framed
	 nop
	call zoo_tail
	 nop
	return %i7 + 8
	 srl %o0, 0, %o0
end instruction_zoo

function zoo_helper
	sll %o0, 13, %o1
	xor %o0, %o1, %o0
	srl %o0, 17, %o1
	retl
	 xor %o0, %o1, %o0
end zoo_helper

function zoo_other /* the address of its call is in another register */
	sll %o0, 5, %o1
	jmp %o5 + 8
	 add %o0, %o1, %o0
end zoo_other

function zoo_framed
	save %sp, -FRAME, %sp
	sll %i0, 3, %l0
	add %i0, %l0, %i0
	ret
	 restore %i0, 9, %o0
end zoo_framed

function zoo_tail /* a call as the last thing done: the return address is its own caller's */
	mov %o7, %o5
	call zoo_helper
	 mov %o5, %o7
end zoo_tail

	.section .rodata
	.balign 8
zoo_table:
	.word 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe
zoo_branches:
	.xword .Lseven, .Leight, .Lnine, .Leight
zoo_pointer:
	.xword zoo_helper
