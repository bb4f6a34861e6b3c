/* 64-bit shift helpers of the compiler for 32-bit registers: the number is in two registers (high half
   first in big-endian code), the distance in a2. */
#include "arch.h"
#include "asm.h"

#ifndef __mips64
#ifdef __MIPSEB__
#define HIGH $4
#define LOW $5
#define RESULT_HIGH $2
#define RESULT_LOW $3
#else
#define HIGH $5
#define LOW $4
#define RESULT_HIGH $3
#define RESULT_LOW $2
#endif

	.text
function __lshrdi3
	andi $8, $6, 32
	bnez $8, 1f
	nor $9, $0, $6
	srlv RESULT_LOW, LOW, $6
	sll $10, HIGH, 1
	sllv $10, $10, $9
	or RESULT_LOW, RESULT_LOW, $10
	jr $31
	srlv RESULT_HIGH, HIGH, $6
1:	srlv RESULT_LOW, HIGH, $6
	jr $31
	move RESULT_HIGH, $0
end __lshrdi3

function __ashldi3
	andi $8, $6, 32
	bnez $8, 1f
	nor $9, $0, $6
	sllv RESULT_HIGH, HIGH, $6
	srl $10, LOW, 1
	srlv $10, $10, $9
	or RESULT_HIGH, RESULT_HIGH, $10
	jr $31
	sllv RESULT_LOW, LOW, $6
1:	sllv RESULT_HIGH, LOW, $6
	jr $31
	move RESULT_LOW, $0
end __ashldi3
#endif
