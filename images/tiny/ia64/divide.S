/* Division, which the compiler calls: this kernel uses no floating-point instructions but integer multiplication. Changes r8 to r11 and
   r14 to r16. */
#include "asm.h"

	.text
	/* r8 by r15: the quotient in r8, the remainder in r9. By `bits` steps; a dividend of 32 bits is in the upper half. */
	.macro divide bits
	mov r16 = ar.lc
	mov r9 = r0
	;;
	mov ar.lc = \bits - 1
	;;
1:	cmp.lt p6, p7 = r9, r0
	;;
	shrp r9 = r9, r8, 63
	add r8 = r8, r8
	;;
	(p7) cmp.geu p6, p7 = r9, r15
	;;
	(p6) sub r9 = r9, r15
	(p6) adds r8 = 1, r8
	br.cloop.sptk.few 1b
	;;
	mov ar.lc = r16
	.endm

	.macro unsigned name, result
	function \name
	mov r8 = r32
	mov r15 = r33
	;;
	divide 64
	.ifnc \result, r8
	mov r8 = \result
	.endif
	br.ret.sptk.many b0
	;;
	end \name
	.endm

	.macro unsigned32 name, result
	function \name
	shl r8 = r32, 32
	zxt4 r15 = r33
	;;
	divide 32
	.ifnc \result, r8
	mov r8 = \result
	.endif
	br.ret.sptk.many b0
	;;
	end \name
	.endm

	/* p8: the dividend is negative; p10: the divisor is. The remainder has the sign of the dividend. */
	.macro signed name, extend, result
	function \name
	\extend r8 = r32
	\extend r15 = r33
	;;
	cmp.lt p8, p9 = r8, r0
	cmp.lt p10, p11 = r15, r0
	;;
	(p8) sub r8 = r0, r8
	(p10) sub r15 = r0, r15
	;;
	divide 64
	.ifc \result, r8
	(p8) sub r8 = r0, r8
	;;
	(p10) sub r8 = r0, r8
	.else
	mov r8 = \result
	;;
	(p8) sub r8 = r0, r8
	.endif
	br.ret.sptk.many b0
	;;
	end \name
	.endm

	unsigned __udivdi3, r8
	unsigned __umoddi3, r9
	unsigned32 __udivsi3, r8
	unsigned32 __umodsi3, r9
	signed __divdi3, mov, r8
	signed __moddi3, mov, r9
	signed __divsi3, sxt4, r8
	signed __modsi3, sxt4, r9
