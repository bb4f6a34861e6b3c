// A program for Linux that uses what random code cannot: the register stack through its backing store, rotation, loop
// branches, NaT bits, the ALAT, and calls. It writes its results of 8 bytes to standard output and exits.
//
//   ia64-linux-gnu-as tour.S -o tour.o
//   ia64-linux-gnu-ld -static -Ttext 0x100000 -Tdata 0x102000 -Tbss 0x104000 -e _start tour.o -o tour.elf
//   ia64-linux-gnu-objcopy -O binary -j .text -j .data tour.elf tour.bin
	.text
	.global _start
_start:
	movl r12=stack ;;
	alloc r33=ar.pfs,0,40,8,16
	movl r4=results ;;

	// 200 calls deep, with frames of 20 registers that are all used.
	mov r72=200
	br.call.sptk.many b0=deep ;;
	st8 [r4]=r8,8

	mov r72=17
	br.call.sptk.many b0=fib ;;
	st8 [r4]=r8,8

	// Frames of 90 registers: each call moves most of the stack to memory.
	mov r72=12
	br.call.sptk.many b0=wide ;;
	st8 [r4]=r8,8

	// A pipelined loop of 10 numbers with the stages p16 to p18.
	mov ar.lc=9
	mov ar.ec=3
	mov pr.rot=0x10000
	mov r9=0
	movl r6=numbers ;;
1:	(p16) ld8 r34=[r6],8
	(p18) add r9=r9,r36
	(p17) xor r35=7,r35
	br.ctop.sptk.few 1b ;;
	st8 [r4]=r9,8
	mov r10=ar.ec
	mov r11=ar.lc ;;
	st8 [r4]=r10,8 ;;
	st8 [r4]=r11,8
	mov r10=pr ;;
	st8 [r4]=r10,8
	clrrrb ;;

	// A while loop with rotating floating-point registers.
	mov ar.ec=2
	mov pr.rot=0
	mov r9=5
	mov r10=0
	setf.sig f32=r9
	setf.sig f33=r9 ;;
2:	getf.sig r11=f33
	adds r9=-1,r9
	setf.sig f32=r9 ;;
	add r10=r10,r11
	cmp.lt p6,p7=0,r9 ;;
	(p6) br.wtop.sptk.few 2b ;;
	st8 [r4]=r10,8
	clrrrb ;;

	// br.cexit and br.cloop.
	mov ar.lc=4
	mov ar.ec=1
	mov r9=0 ;;
3:	adds r9=3,r9
	nop.i 0
	br.cexit.spnt.few 4f ;;
	adds r9=100,r9
	br.sptk.few 3b ;;
4:	st8 [r4]=r9,8
	clrrrb
	mov ar.lc=6
	mov r9=1 ;;
5:	shladd r9=r9,1,r9
	nop.i 0
	br.cloop.sptk.few 5b ;;
	st8 [r4]=r9,8

	// NaT bits: through arithmetic, comparisons, a spill and a fill.
	mov r14=-1
	dep r14=r0,r14,61,2 ;;
	movl r14=0x1fffffffffff0000 ;;
	ld8.s r15=[r14]
	mov r16=5 ;;
	add r17=r15,r16
	tnat.nz p6,p7=r15 ;;
	(p6) adds r18=1,r0
	(p7) adds r18=2,r0
	cmp.eq p8,p9=r15,r16
	tnat.nz.or p8,p10=r0 ;;
	mov r19=0 ;;
	(p8) adds r19=1,r19 ;;
	(p9) adds r19=2,r19
	movl r20=scratch ;;
	mov ar.unat=0 ;;
	st8.spill [r20]=r17,8 ;;
	st8.spill [r20]=r16,-8
	mov r21=ar.unat ;;
	ld8.fill r22=[r20] ;;
	tnat.z p6,p7=r22 ;;
	mov r23=0 ;;
	(p6) adds r23=1,r0
	(p7) adds r23=2,r0
	chk.s.m r15,6f ;;
	adds r23=50,r23 ;;
6:	st8 [r4]=r18,8 ;;
	st8 [r4]=r19,8 ;;
	popcnt r21=r21 ;;
	st8 [r4]=r21,8 ;;
	st8 [r4]=r23,8

	// The ALAT: a check that holds, and one that a store has broken.
	movl r20=scratch+16
	movl r21=scratch+64
	mov r22=77
	mov r23=88 ;;
	st8 [r20]=r22 ;;
	ld8.a r24=[r20]
	st8 [r21]=r23 ;;
	ld8.c.nc r24=[r20] ;;
	mov r25=r24
	st4 [r20]=r23 ;;
	ld8.c.clr r24=[r20] ;;
	add r25=r24,r25
	ld8.a r26=[r21] ;;
	st1 [r21]=r22
	mov r27=1 ;;
	chk.a.clr r26,7f ;;
	adds r27=9,r27 ;;
7:	st8 [r4]=r25,8 ;;
	st8 [r4]=r27,8

	// The register stack: what flushrs leaves in memory, and what is loaded from there after a change.
	br.call.sptk.many b0=stored ;;
	st8 [r4]=r8,8 ;;
	st8 [r4]=r9,8

	// An indirect call, and a call far away.
	movl r9=leaf ;;
	mov b6=r9
	mov r72=1000 ;;
	br.call.sptk.many b0=b6 ;;
	mov r72=r8
	brl.call.sptk.many b0=leaf ;;
	st8 [r4]=r8,8

	// Multiplication of integers, and 128 bits of a product.
	movl r9=0xfedcba9876543210
	movl r10=0x123456789abcdef1 ;;
	setf.sig f6=r9
	setf.sig f7=r10 ;;
	xma.l f8=f6,f7,f6
	xma.hu f9=f6,f7,f6
	xma.h f10=f6,f7,f7 ;;
	getf.sig r9=f8
	getf.sig r10=f9
	getf.sig r11=f10 ;;
	st8 [r4]=r9,8 ;;
	st8 [r4]=r10,8 ;;
	st8 [r4]=r11,8
	getf.d r9=f1
	getf.exp r10=f8
	getf.s r11=f1 ;;
	st8 [r4]=r9,8 ;;
	st8 [r4]=r10,8 ;;
	st8 [r4]=r11,8

	// Semaphores.
	movl r20=scratch+128
	mov r9=40
	mov r10=41 ;;
	st8 [r20]=r9
	mov ar.ccv=r9 ;;
	cmpxchg8.acq r11=[r20],r10,ar.ccv ;;
	cmpxchg4.rel r14=[r20],r9,ar.ccv ;;
	fetchadd8.acq r15=[r20],-4 ;;
	fetchadd4.rel r16=[r20],16 ;;
	xchg2 r17=[r20],r9 ;;
	ld8 r18=[r20]
	shladd r11=r14,4,r11
	shladd r15=r16,3,r15 ;;
	add r11=r11,r15
	shladd r17=r18,2,r17 ;;
	st8 [r4]=r11,8 ;;
	st8 [r4]=r17,8 ;;

	// write(1, results, length), exit(0). The arguments are the outputs of a frame without locals.
	movl r10=results ;;
	sub r11=r4,r10
	alloc r2=ar.pfs,0,0,3,0 ;;
	mov r32=1
	mov r33=r10
	mov r34=r11
	mov r15=1027 ;;
	break.i 0x100000 ;;
	mov r32=0
	mov r15=1025 ;;
	break.i 0x100000 ;;

// The sum of 3*n from n down to 0.
deep:
	alloc r34=ar.pfs,1,18,1,0
	mov r35=b0
	cmp.eq p6,p7=0,r32
	mov r50=r32
	mov r8=0 ;;
	(p6) br.ret.sptk.many b0 ;;
	adds r51=-1,r32
	add r36=r32,r32 ;;
	br.call.sptk.many b0=deep ;;
	add r8=r8,r36 ;;
	add r8=r8,r50
	mov b0=r35
	mov ar.pfs=r34 ;;
	br.ret.sptk.many b0 ;;

fib:
	alloc r34=ar.pfs,1,4,1,0
	mov r35=b0
	cmp.gt p6,p7=2,r32
	mov r8=r32 ;;
	(p6) br.ret.sptk.many b0 ;;
	adds r37=-1,r32
	br.call.sptk.many b0=fib ;;
	mov r36=r8
	adds r37=-2,r32 ;;
	br.call.sptk.many b0=fib ;;
	add r8=r8,r36
	mov b0=r35
	mov ar.pfs=r34 ;;
	br.ret.sptk.many b0 ;;

wide:
	alloc r34=ar.pfs,1,88,1,0
	mov r35=b0
	mov r110=r32
	shl r36=r32,5
	cmp.eq p6,p7=0,r32
	mov r8=3 ;;
	(p6) br.ret.sptk.many b0 ;;
	adds r121=-1,r32
	br.call.sptk.many b0=wide ;;
	xor r8=r8,r36 ;;
	shladd r8=r8,1,r110
	mov b0=r35
	mov ar.pfs=r34 ;;
	br.ret.sptk.many b0 ;;

leaf:
	adds r8=7,r32
	br.ret.sptk.many b0 ;;

// A frame below this one is flushed, and one of its registers is changed in memory. Its sum is returned in r8, and the
// bytes of the frame in the backing store in r9.
stored:
	alloc r34=ar.pfs,0,8,0,0
	mov r35=b0
	mov r36=1
	mov r37=20
	mov r38=300 ;;
	br.call.sptk.many b0=change ;;
	add r8=r36,r37 ;;
	add r8=r8,r38
	mov b0=r35
	mov ar.pfs=r34 ;;
	br.ret.sptk.many b0 ;;

change:
	alloc r32=ar.pfs,0,2,0,0 ;;
	mov r14=ar.rsc
	flushrs ;;
	mov ar.rsc=0 ;;
	mov r15=ar.bsp
	mov r16=ar.bspstore
	mov r17=ar.rnat ;;
	// The caller's r37 is 3 registers below this frame, or 4 words if a collection is between.
	adds r18=-24,r15
	extr.u r19=r15,3,6 ;;
	cmp.gt p6,p7=3,r19 ;;
	(p6) adds r18=-8,r18
	mov r20=4000 ;;
	st8 [r18]=r20 ;;
	loadrs ;;
	mov ar.bspstore=r16 ;;
	mov ar.rnat=r17 ;;
	mov ar.rsc=r14 ;;
	sub r9=r15,r16
	mov ar.pfs=r32 ;;
	br.ret.sptk.many b0 ;;

	.data
	.align 16
numbers:
	data8 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
scratch:
	.skip 256
results:
	.skip 512
	.bss
	.align 16
	.skip 4096
stack:
	.skip 64
