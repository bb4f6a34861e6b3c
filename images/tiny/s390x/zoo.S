/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only. */
#include "arch.h"

	.text
	.balign 16
	.globl instruction_zoo
	.type instruction_zoo, @function
instruction_zoo: /* r2: a number; returns another */
	stmg %r6, %r15, 72(%r15)
	lgr %r14, %r15
	aghi %r15, -208
	stg %r14, 152(%r15)
	xc 160(48, %r15), 160(%r15)
	llgfr %r12, %r2

	/* arithmetic, shifts, bits */
	llilf %r3, 0x1930100
	msgr %r12, %r3
	rll %r4, %r12, 5
	risbg %r5, %r12, 35, 0x80 | 60, 7
	xgr %r12, %r5
	rosbg %r12, %r4, 40, 51, 4
	rxsbg %r12, %r4, 10, 20, 13
	rllg %r6, %r12, 13
	sra %r6, 3
	srlg %r7, %r12, 7
	mlgr %r8, %r7 /* r8 and r9 */
	xgr %r12, %r9
	mlr %r6, %r7
	agr %r12, %r6
	slgr %r12, %r4
	slbgr %r7, %r7
	alcgr %r12, %r7
	flogr %r8, %r12
	agr %r12, %r8
	lgr %r9, %r12
	lghi %r8, 0
	oill %r4, 1
	dlgr %r8, %r4
	xgr %r12, %r8
	lr %r8, %r12
	srda %r8, 32
	lr %r4, %r12
	oill %r4, 7
	dr %r8, %r4
	ar %r12, %r8
	lcgr %r3, %r12
	lngr %r4, %r12
	lpgr %r5, %r4
	sgr %r3, %r5
	xgr %r12, %r3
	lghr %r3, %r12
	llghr %r4, %r12
	lbr %r5, %r12
	llgcr %r6, %r12
	agr %r12, %r3
	xgr %r12, %r4
	agr %r12, %r5
	xgr %r12, %r6
	lrvgr %r3, %r12
	xgr %r12, %r3
	ipm %r4
	srlg %r4, %r4, 28
	nill %r4, 3
	agr %r12, %r4
	cgr %r12, %r3
	ipm %r4
	srl %r4, 28
	alr %r12, %r4
	tmll %r12, 0x11
	ipm %r4
	srl %r4, 28
	alr %r12, %r4
	xgr %r4, %r4
	epsw %r3, %r4 /* reads the PSW; the result is not used */

	/* constants by distance, with an index, in pieces, the other way round */
	lrl %r3, zoo_word
	xr %r12, %r3
	lgfrl %r4, zoo_word
	agr %r12, %r4
	llgfrl %r5, zoo_word
	xgr %r12, %r5
	lhrl %r6, zoo_word
	ar %r12, %r6
	llghrl %r6, zoo_word
	agr %r12, %r6
	lgrl %r7, zoo_pair
	xgr %r12, %r7
	larl %r8, zoo_table
	lgr %r9, %r12
	nill %r9, 12
	nilh %r9, 0
	nihf %r9, 0
	l %r10, 0(%r9, %r8)
	ar %r12, %r10
	lrv %r10, 4(%r8)
	sr %r12, %r10
	strl %r12, zoo_scratch
	crl %r12, zoo_scratch
	jne .Lnever
	clgrl %r12, zoo_pair
	jh 0f
	xilf %r12, 0x5a5a
0:	stg %r12, 160(%r15)
	sthrl %r12, zoo_scratch
	lgh %r10, 162(%r15)
	agr %r12, %r10
	llc %r10, 165(%r15)
	xr %r12, %r10
	stcm %r12, 6, 168(%r15)
	mvc 170(6, %r15), 160(%r15)
	xc 160(4, %r15), 164(%r15)
	ni 161(%r15), 0x7f
	asi 164(%r15), 17
	agsi 168(%r15), -3
	mvhi 176(%r15), 1234
	mvghi 184(%r15), -9
	lmg %r3, %r6, 160(%r15)
	agr %r12, %r3
	xgr %r12, %r4
	agr %r12, %r5
	xgr %r12, %r6
	lm %r3, %r5, 164(%r15)
	ar %r12, %r5
	lmh %r3, %r4, 160(%r15)
	stmh %r3, %r4, 192(%r15)

	/* EXECUTE, with and without a length */
	lghi %r3, 4
	exrl %r3, .Lexecuted
	larl %r4, .Lexecuted_too
	ex %r3, 0(%r4)
	lg %r5, 192(%r15)
	xgr %r12, %r5
	lghi %r3, 0x21
	exrl %r3, .Lexecuted_arithmetic
	j 1f
.Lexecuted:
	mvc 192(1, %r15), 161(%r15)
.Lexecuted_too:
	oc 196(1, %r15), 168(%r15)
.Lexecuted_arithmetic:
	aghi %r12, 0x100
1:
	/* compare and swap */
	stg %r12, 160(%r15)
	lg %r3, 160(%r15)
2:	lgr %r4, %r3
	aghi %r4, 77
	csg %r3, %r4, 160(%r15)
	jl 2b
	l %r3, 164(%r15)
3:	lr %r4, %r3
	ahi %r4, 5
	csy %r3, %r4, 164(%r15)
	brc 4, 3b
	lmg %r4, %r5, 160(%r15)
	cds %r4, %r4, 160(%r15)
	lg %r12, 160(%r15)

	/* instructions that interrupts can suspend */
	larl %r4, zoo_table
	la %r2, 160(%r15)
	lghi %r3, 16
	lghi %r5, 12
	llgfr %r5, %r5
	iilh %r5, 0x7700
	mvcl %r2, %r4
	larl %r4, zoo_table
	la %r2, 160(%r15)
	lghi %r3, 16
	lghi %r5, 16
4:	clcle %r2, %r4, 0x77
	jo 4b
	ipm %r5
	srl %r5, 28
	ar %r12, %r5
	la %r2, 176(%r15)
	larl %r4, zoo_text
	lghi %r0, 0
5:	mvst %r2, %r4
	jo 5b
	lghi %r0, 'q'
	la %r2, 176(%r15)
	lgr %r4, %r2
	la %r2, 16(%r2)
6:	srst %r2, %r4
	jo 6b
	sgr %r2, %r4
	ar %r12, %r2
	xg %r12, 160(%r15)

	/* branches on counters and conditions, calls in every way */
	lghi %r5, 5
7:	sllg %r6, %r12, 1
	agr %r12, %r6
	brctg %r5, 7b
	lhi %r5, 3
8:	ahi %r12, 3
	brct %r5, 8b
	lghi %r5, 0
	lghi %r6, 2
	lghi %r7, 7
9:	aghi %r12, 11
	brxlg %r5, %r6, 9b
	lhi %r5, 9
	lhi %r6, -3
	lhi %r7, 1
10:	ahi %r12, 13
	brxh %r5, %r6, 10b
	bras %r6, 11f /* the get-pc idiom; the result is not used */
11:	basr %r6, 0
	tmll %r12, 1
	jne 12f
	xilf %r12, 0xffffffff
12:	cijl %r12, 0, 13f
	aghi %r12, 1
13:	clgijh %r12, 200, 14f
	aghi %r12, 2
14:	crje %r12, %r5, 15f
	xilf %r12, 0x11
15:	cgrjnl %r12, %r5, 16f
	xilf %r12, 0x22
16:	clrjh %r12, %r7, 17f
	xilf %r12, 0x44
17:	lgr %r7, %r12
	nill %r7, 12
	nilh %r7, 0
	nihf %r7, 0
	larl %r8, zoo_branches
	lgf %r9, 0(%r7, %r8)
	b 0(%r9, %r8)
.Lseven:
	ahi %r12, 7
.Leight:
	xilf %r12, 0xff
.Lnine:
	lgr %r2, %r12
	brasl %r14, zoo_helper
	lgr %r12, %r2
	larl %r9, zoo_pointer
	lg %r1, 0(%r9)
	bas %r14, 0(%r1)
	lgr %r12, %r2
	lgrl %r1, zoo_pointer
	basr %r14, %r1
	brcl 0, .
	bcr 0, %r7
	bcr 15, 0
	llgfr %r2, %r2
.Lnever:
	lmg %r6, %r15, 280(%r15)
	br %r14
	.size instruction_zoo, . - instruction_zoo

	.type zoo_helper, @function
zoo_helper: /* returns by another register */
	lgr %r1, %r14
	lr %r3, %r2
	sll %r3, 13
	xr %r2, %r3
	lr %r3, %r2
	srl %r3, 17
	xr %r2, %r3
	bcr 15, %r1
	.size zoo_helper, . - zoo_helper

	.section .rodata
	.balign 8
zoo_pair:
	.quad 0x85c9e1f277aa3312
zoo_pointer:
	.quad zoo_helper
zoo_word:
	.long 0x85c9e1f2
zoo_branches:
	.long .Lseven - zoo_branches, .Leight - zoo_branches, .Lnine - zoo_branches, .Leight - zoo_branches
zoo_table:
	.long 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe
zoo_text:
	.asciz "a fine quarry"

	.data
	.balign 8
zoo_scratch:
	.long 0, 0
