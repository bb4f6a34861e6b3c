// Instructions of kernel code, and forms that the assembler writes in another way than they are encoded. The test
// assembles this file and compares our disassembly with objdump's, so its instructions have no other purpose.
	.text
	.explicit
entry:
	{ .mii
	alloc r35=ar.pfs,3,5,2,0
	mov r34=b0
	mov r36=r1 ;;
	}
	{ .mmi
	ld8 r14=[r32],8
	ld8.s r15=[r33]
	adds r16=-16,r12 ;;
	}
	{ .mmi
	st8 [r16]=r14,8
	st8.spill [r12]=r4,-16
	mov ar.pfs=r35 ;;
	}
	{ .mfi
	setf.sig f6=r14
	xma.l f8=f6,f7,f0
	cmp.eq p6,p7=0,r14 ;;
	}
	{ .mmf
	getf.sig r8=f8
	ldf.fill f9=[r12],32
	xma.hu f8=f6,f7,f9 ;;
	}
	{ .mlx
	nop.m 0
	movl r18=0x123456789abcdef0 ;;
	}
	{ .mlx
(p6)	st4.rel [r14]=r15
	brl.call.sptk.many b0=entry ;;
	}
	{ .mib
	chk.a.clr r14,entry
	tbit.z p8,p9=r15,3
(p8)	br.cond.dpnt.few entry ;;
	}
	{ .mbb
	mov r2=r3
	br.ret.sptk.many b0
	br.call.sptk.many b6=b7 ;;
	}
	{ .bbb
(p7)	br.cond.sptk.few entry
	break.b 0
	br.cloop.sptk.few entry ;;
	}
	{ .mmb
	chk.s.m r15,entry
	lfetch.nt1 [r14],64
	br.few entry
	}
	{ .mfb
	fc r14
	fmerge.s f4=f5,f5
	br.ctop.sptk.many entry
	}
	{ .mii
	srlz.d
	shl r4=r5,3
	shr.u r6=r7,60 ;;
	}
	{ .mii
	ssm 1<<14
	dep r4=-1,r5,2,3
	extr.u r6=r7,2,60 ;;
	}
	{ .mii
	rsm (1<<14)|(1<<13)
	mov pr=r36,-1
	mov b6=r36 ;;
	}
	{ .mii
	mov cr.iva=r4
	mov pr.rot=0x10000
	mov.i ar.lc=31 ;;
	}
	{ .mmi
	mov r4=cr.ivr
	mov rr[r5]=r6
	mux1 r7=r8,@rev ;;
	}
	{ .mmi
	itc.i r6 ;;
	itr.d dtr[r4]=r5
	shladd r7=r8,3,r9 ;;
	}
	{ .mmi
	cmpxchg8.acq r4=[r5],r6,ar.ccv
	fetchadd4.rel r7=[r8],-1
	sxt4 r9=r10 ;;
	}
	{ .mmi
	ptc.ga r7,r8 ;;
	xchg4 r4=[r5],r6
	popcnt r9=r10 ;;
	}
	{ .mmi
	flushrs
	mov.m ar.bspstore=r4
	zxt2 r9=r10 ;;
	}
	{ .mmb
	mov r4=psr
	mov psr.l=r5
	cover ;;
	}
	{ .mib
	mf
	nop.i 7
	bsw.1 ;;
	}
	{ .mmb
	loadrs
	invala.e f4
	rfi ;;
	}
	{ .mfi
	ldfs f6=[r4]
	fma.s1 f7=f8,f9,f10
	shrp r5=r6,r7,13
	}
	{ .mfi
	stfd [r4]=f6
	fnma.d.s0 f7=f8,f9,f0
	unpack4.l r5=r6,r7
	}
	{ .mfi
	probe.w.fault r4,3
	fcmp.lt.unc.s0 p6,p7=f8,f9
	mov r5=ip
	}
	{ .mfb
	thash r4=r5
	frcpa.s0 f6,p7=f8,f9
	brp.loop.imp entry,entry+16
	}
	{ .mii
	hint.m 0
	tnat.nz.or p6,p7=r9
	cmp4.ltu p8,p0=r4,r5 ;;
	}
	{ .mlx
	break.m 0x80000
	nop.x 0x3fffffffffffffff
	}
