// The frame of random programs: it loads the registers from the data, runs the bundles at `body`, which the test replaces,
// stores the registers to the data, writes the data to standard output and exits. core/tests/ia64/random.rs makes the body.
//
//   ia64-linux-gnu-as random.S -o random.o
//   ia64-linux-gnu-ld -static -Ttext 0x100000 -Tdata 0x103000 -e _start random.o -o random.elf
//   ia64-linux-gnu-objcopy -O binary -j .text random.elf random.bin
	.text
	.global _start
_start:
	alloc r32=ar.pfs,0,93,3,32
	movl r2=registers ;;
	mov r3=r2
	mov r12=r2 ;;
	.irp n,8,9,10,11,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	ld8 r\n=[r2],8 ;;
	.endr
	.altmacro
	.macro each from,to,what
	.if \from<=\to
	\what \from
	each %(\from+1),\to,\what
	.endif
	.endm
	.macro load n
	ld8 r\n=[r2],8 ;;
	.endm
	.macro store n
	st8 [r2]=r\n,8 ;;
	.endm
	.macro fload n
	ldf8 f\n=[r2],8 ;;
	.endm
	.macro fstore n
	stf.spill [r2]=f\n,16 ;;
	.endm
	each 33,95,load
	each 6,15,fload
	each 32,63,fload
	ld8 r4=[r2],8 ;;
	mov pr=r4,-1
	ld8 r4=[r2],8 ;;
	mov b6=r4
	mov ar.ccv=r4
	ld8 r4=[r2],8 ;;
	mov ar.unat=r4
	mov b7=r4
	mov ar.lc=5
	mov ar.ec=3
	movl r3=middle ;;
	br.sptk.few body ;;
	.align 16
	.global body
body:
	.rept 64
	{ .mii
	nop.m 0
	nop.i 0
	nop.i 0 ;; }
	.endr
	mov r2=r12 ;;
	.irp n,8,9,10,11,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,3
	st8 [r2]=r\n,8 ;;
	.endr
	each 33,95,store
	mov r4=pr ;;
	st8 [r2]=r4,8
	mov r4=b6 ;;
	st8 [r2]=r4,8
	mov r4=b7 ;;
	st8 [r2]=r4,8
	mov r4=ar.ccv ;;
	st8 [r2]=r4,8
	mov r4=ar.unat ;;
	st8 [r2]=r4,8
	mov r4=ar.lc ;;
	st8 [r2]=r4,8
	mov r4=ar.ec ;;
	st8 [r2]=r4,8 ;;
	adds r2=15,r2 ;;
	dep r2=r0,r2,0,4 ;;
	each 6,15,fstore
	each 32,63,fstore
	clrrrb ;;
	// write(1, registers, 0x6000), exit(0)
	alloc r4=ar.pfs,0,0,3,0 ;;
	mov r32=1
	mov r33=r12
	movl r34=0x6000
	mov r15=1027 ;;
	break.i 0x100000 ;;
	mov r32=0
	mov r15=1025 ;;
	break.i 0x100000 ;;
	.data
	.align 16
	.global registers, middle
registers:
	.skip 0x3000
middle:
	.skip 0x3000
