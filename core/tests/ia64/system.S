// A kernel without devices: it runs with translation on, fills the TLB in handlers, and makes system calls whose handler
// uses the caller's register stack. The backing store, the data and the code miss the TLB.
//
//   ia64-linux-gnu-as system.S -o system.o
//   ia64-linux-gnu-ld -static -Ttext 0x100000 -e _start system.o -o system.elf
//   ia64-linux-gnu-objcopy -O binary -j .text system.elf system.bin
//
// The addresses of region 1 are physical ones with 0x2000000000000000 added.
	.text
	.align 32768
vectors:
	// An instruction's page is missing.
	.org vectors+0xc00
	mov r16=cr.ifa
	mov r17=0x661
	mov r18=ar.k1
	mov r28=pr ;;
	dep r16=r0,r16,0,14
	adds r18=1,r18 ;;
	dep r16=r0,r16,61,3
	mov ar.k1=r18 ;;
	or r16=r16,r17 ;;
	itc.i r16 ;;
	mov pr=r28,-1
	rfi ;;
	// A data page is missing.
	.org vectors+0x1000
	mov r16=cr.ifa
	mov r17=0x661
	mov r18=ar.k0 ;;
	dep r16=r0,r16,0,14
	adds r18=1,r18 ;;
	dep r16=r0,r16,61,3
	mov ar.k0=r18 ;;
	or r16=r16,r17 ;;
	itc.d r16 ;;
	rfi ;;
	// A system call: the sum of 50 numbers, computed on the caller's register stack.
	.org vectors+0x2c00
	mov r20=cr.iip
	mov r21=cr.ipsr
	mov r29=ar.k2
	mov r23=b0
	mov r24=ar.pfs
	mov r28=pr
	cover ;;
	adds r29=1,r29
	mov r22=cr.ifs
	extr.u r26=r21,41,2 ;;
	mov ar.k2=r29
	alloc r25=ar.pfs,0,0,1,0
	mov r32=50
	cmp.eq p6,p7=2,r26 ;;
	(p6) adds r20=16,r20
	(p6) mov r26=0
	(p7) adds r26=1,r26 ;;
	dep r21=r26,r21,41,2
	ssm 1<<13 ;;
	srlz.d ;;
	br.call.sptk.many b0=deep ;;
	rsm 1<<13 ;;
	srlz.d
	mov b0=r23
	mov ar.pfs=r24
	mov pr=r28,-1
	mov cr.iip=r20
	mov cr.ipsr=r21
	mov cr.ifs=r22 ;;
	rfi ;;

	.org vectors+0x3400
	.global _start
_start:
	movl r2=0x2000000000000000+vectors ;;
	mov cr.iva=r2
	movl r3=0x2000000000000000 ;;
	mov r4=(0x123<<8)|(14<<2) ;;
	mov rr[r3]=r4
	// The page with the vectors stays in a translation register.
	mov r4=14<<2
	movl r5=vectors+0x661 ;;
	mov cr.ifa=r2
	mov cr.itir=r4 ;;
	itr.i itr[r0]=r5 ;;
	srlz.i ;;
	mov ar.rsc=0
	movl r5=0x2000000000180000 ;;
	mov ar.bspstore=r5
	mov ar.rnat=r0
	mov ar.k0=r0
	mov ar.k1=r0
	mov ar.k2=r0
	// Continue at `virtual` in region 1, with all translation on and interruptions collected.
	movl r6=(1<<13)|(1<<17)|(1<<27)|(1<<36)|(1<<44)
	movl r7=0x2000000000000000+virtual ;;
	mov cr.ipsr=r6
	mov cr.iip=r7
	mov cr.ifs=r0 ;;
	rfi ;;

virtual:
	movl r4=0x2000000000170000
	alloc r33=ar.pfs,0,4,1,0 ;;
	mov r36=200
	br.call.sptk.many b0=deep ;;
	st8 [r4]=r8,8
	mov r34=77
	mov r35=88
	mov r36=99
	mov r16=1616 ;;
	break.m 1 ;;
	st8 [r4]=r8,8 ;;
	{ .mii
	nop.m 0
	break.i 1
	add r9=r34,r35 ;; }
	add r9=r9,r36 ;;
	st8 [r4]=r9,8 ;;
	{ .mii
	nop.m 0
	mov r10=5
	break.i 1 ;; }
	st8 [r4]=r16,8 ;;
	st8 [r4]=r10,8
	mov r9=ar.k2 ;;
	st8 [r4]=r9,8
	// An advanced load, a store and a purge: the page comes back by another miss.
	movl r20=0x2000000000160008
	mov r21=14<<2
	mov r22=4711 ;;
	st8 [r20]=r22
	mov r9=ar.k0 ;;
	ptc.l r20,r21 ;;
	srlz.d ;;
	ld8 r23=[r20]
	mov r10=ar.k0 ;;
	sub r9=r10,r9 ;;
	st8 [r4]=r23,8 ;;
	st8 [r4]=r9,8
	tpa r11=r20
	probe.w r12=r20,0 ;;
	st8 [r4]=r11,8 ;;
	st8 [r4]=r12,8
	probe.w r12=r20,3
	mov r9=ar.k1 ;;
	st8 [r4]=r12,8 ;;
	st8 [r4]=r9,8
	break.m 7 ;;

// The sum of 3*n from n down to 0, in another page.
	.org vectors+0x4000
deep:
	alloc r34=ar.pfs,1,18,1,0
	mov r35=b0
	cmp.eq p6,p7=0,r32
	mov r50=r32
	mov r8=0
	movl r14=0x2000000000180000
	mov r15=16<<2 ;;
	// The deepest call forgets the pages of the backing store, so its callers miss them.
	(p6) ptc.l r14,r15 ;;
	(p6) br.ret.sptk.many b0 ;;
	adds r51=-1,r32
	add r36=r32,r32 ;;
	br.call.sptk.many b0=deep ;;
	add r8=r8,r36 ;;
	add r8=r8,r50
	mov b0=r35
	mov ar.pfs=r34 ;;
	br.ret.sptk.many b0 ;;
