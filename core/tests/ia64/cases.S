// The frame of a recorded case: it runs in system mode, in physical memory. It loads the registers from the data, runs
// the bundles at `body`, which the test replaces, some times, and stores the registers to the data. Then it writes the data
// with the console call of ski and exits. An interruption of the body is noted, and its instruction is skipped. The vectors,
// at 0x100000, are made by the test: each one leaves its address in r16 and branches to `handler`.
//
//   ia64-linux-gnu-as cases.S -o cases.o
//   ia64-linux-gnu-ld -static -Ttext 0x108000 -Tdata 0x10c000 -e _start cases.o -o cases.elf
//   ia64-linux-gnu-objcopy -O binary -j .text cases.elf cases.bin
	.text
	.global _start, handler, body
	.altmacro
	.macro each from,to,what
	.if \from<=\to
	\what \from
	each %(\from+1),\to,\what
	.endif
	.endm
	.macro fill n
	ld8.fill r\n=[r2],8 ;;
	.endm
	.macro spill n
	st8.spill [r2]=r\n,8 ;;
	.endm
	.macro ffill n
	ldf.fill f\n=[r2],16 ;;
	.endm
	.macro fspill n
	stf.spill [r2]=f\n,16 ;;
	.endm
	.macro keep what
	mov r12=\what ;;
	st8 [r2]=r12,8 ;;
	.endm
	.macro take
	ld8 r12=[r2],8 ;;
	.endm
	// The first bundles are at fixed addresses, so that the test finds them.
	.explicit
_start:
	{ .mib
	nop.m 0
	nop.i 0
	br.cond.sptk.few start ;; }
handler:
	{ .mib
	nop.m 0
	nop.i 0
	br.cond.sptk.few handle ;; }
body:
	.rept 4
	{ .mii
	nop.m 0
	nop.i 0
	nop.i 0 ;; }
	.endr
	{ .mlx
	adds r13=-1,r13
	movl r3=middle ;; }
	{ .mib
	cmp.ne p1,p2=r0,r13
	nop.i 0
(p1)	br.cond.sptk.few body ;; }
	{ .mib
	break.m 0x90000
	nop.i 0
	nop.b 0 ;; }
	.auto
handle:
	mov r17=pr
	mov r18=cr.iip
	mov r19=cr.ipsr
	mov r20=cr.isr
	mov r21=cr.ifa
	mov r22=cr.iim ;;
	dep r16=r16,r0,0,15
	movl r25=0x90000
	movl r26=notes_end
	extr.u r23=r19,41,2
	ld8 r24=[r18] ;;
	cmp.eq p6,p7=r25,r22
	movl r25=0x2c00 ;;
(p6)	cmp.eq.unc p6,p7=r25,r16 ;;
(p6)	br.cond.spnt.few end
	cmp.leu p8,p9=r26,r31
	// A break, a general exception, a disabled register and a NaT bit leave the address at fault as it was, or change it, as the CPU likes.
	movl r25=0x5400 ;;
	cmp.eq p6,p7=r25,r16
	movl r25=0x5500 ;;
(p7)	cmp.eq p6,p7=r25,r16
	movl r25=0x5600 ;;
(p7)	cmp.eq p6,p7=r25,r16
	movl r25=0x2c00 ;;
(p7)	cmp.eq p6,p7=r25,r16 ;;
(p6)	mov r21=0
(p8)	br.cond.spnt.few end
	st8 [r31]=r16,8 ;;
	st8 [r31]=r18,8 ;;
	st8 [r31]=r20,8 ;;
	st8 [r31]=r21,8 ;;
	st8 [r31]=r22,8 ;;
	// The next slot. The long instruction of an MLX bundle is its last one.
	and r24=0x1e,r24 ;;
	cmp.eq p6,p7=4,r24
	cmp.ne p8,p9=0,r23 ;;
(p6)	cmp.ne.unc p6,p7=0,r23 ;;
(p6)	mov r23=2 ;;
	cmp.eq p6,p7=2,r23 ;;
(p6)	adds r18=16,r18
(p6)	mov r23=0
(p7)	adds r23=1,r23 ;;
	dep r19=r23,r19,41,2
	mov cr.iip=r18 ;;
	mov cr.ipsr=r19
	mov pr=r17,-1 ;;
	rfi ;;

start:
	bsw.0 ;;
	movl r2=0x100000
	movl r31=notes ;;
	mov cr.iva=r2
	mov ar.rsc=0 ;;
	movl r2=stack+0x1c40 ;;
	mov ar.bspstore=r2 ;;
	mov ar.rnat=r0
	// All data is translated, to the same addresses, by one page of 16 MB: without translation ski defers all speculative loads.
	mov cr.ifa=r0
	mov r2=24<<2
	movl r4=predicates ;;
	ld8 r4=[r4]
	mov cr.itir=r2
	mov r2=0 ;;
	itr.d dtr[r2]=r4 ;;
	srlz.d ;;
	bsw.1 ;;
	alloc r4=ar.pfs,0,56,8,32 ;;
	movl r2=registers ;;
	// The NaT bits of the registers, then the registers, in their order in the data.
	take
	mov ar.unat=r12 ;;
	.irp n,8,9,10,11,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	fill \n
	.endr
	take
	mov ar.unat=r12 ;;
	each 32,95,fill
	each 6,15,ffill
	each 32,47,ffill
	each 112,127,ffill
	take
	mov pr=r12,-1
	take
	mov b6=r12
	take
	mov b7=r12
	take
	mov ar.ccv=r12
	take
	mov ar.unat=r12
	take
	mov ar.lc=r12
	take
	mov ar.ec=r12
	take
	movl r5=body ;;
	mov cr.ipsr=r12
	take
	mov r13=r12
	mov cr.iip=r5
	mov cr.ifs=r0
	mov cr.ifa=r0
	mov cr.iim=r0
	mov r4=4
	mov r5=5
	mov r6=6
	mov r7=7
	mov b0=r0
	mov r12=8 ;;
	mov ar.pfs=r12
	movl r3=middle ;;
	rfi ;;

end:
	movl r30=predicates ;;
	st8 [r30]=r17,8 ;;
	st8 [r30]=r18,8 ;;
	st8 [r30]=r19,8 ;;
	st8 [r30]=r31,8 ;;
	bsw.1 ;;
	mov r12=ar.unat
	movl r2=registers ;;
	st8 [r2]=r12,8 ;;
	.irp n,8,9,10,11,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,3
	spill \n
	.endr
	keep ar.unat
	keep b0
	keep b6
	keep b7
	keep ar.ccv
	keep ar.lc
	keep ar.ec
	keep ar.pfs
	keep ar.bsp
	cover ;;
	keep cr.ifs
	flushrs ;;
	keep ar.bspstore
	// Bits of registers that are not stored yet are undefined.
	extr.u r12=r12,3,6
	mov r13=1 ;;
	shl r13=r13,r12
	mov r12=ar.rnat ;;
	adds r13=-1,r13 ;;
	and r12=r12,r13 ;;
	st8 [r2]=r12,8 ;;
	adds r2=15,r2 ;;
	dep r2=r0,r2,0,4 ;;
	each 6,15,fspill
	each 32,47,fspill
	each 112,127,fspill
	alloc r4=ar.pfs,0,8,0,0 ;;
	mov r32=0
	mov r15=20 ;;
	break.i 0x80001 ;;
	movl r18=registers
	movl r19=written_end ;;
	// A sum of the stack stands for it.
	movl r20=stack
	movl r21=stack_end
	mov r22=r0 ;;
1:	ld8 r23=[r20],8
	shladd r22=r22,2,r22 ;;
	shrp r22=r22,r22,57
	cmp.ltu p6,p7=r20,r21 ;;
	xor r22=r22,r23
(p6)	br.cond.sptk.few 1b ;;
	movl r20=sum ;;
	st8 [r20]=r22 ;;
1:	ld1 r32=[r18],1
	mov r15=31 ;;
	break.i 0x80001 ;;
	cmp.ltu p6,p7=r18,r19 ;;
(p6)	br.cond.sptk.few 1b ;;
	mov r32=0
	mov r15=66 ;;
	break.i 0x80001 ;;
2:	br.cond.sptk.few 2b ;;

	.data
	.align 16
	.global registers, middle, stack, notes
registers:
	.skip 0x600
predicates:
	.skip 0x100
data:	.skip 0x200
middle:	.skip 0x200
notes:	.skip 0x800
notes_end:
	.skip 0x40
sum:	.skip 8
written_end:
	.skip 0xcb8
stack:	.skip 0x4000
stack_end:
