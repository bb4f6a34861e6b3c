/* 64-bit shift helpers of the compiler: the number is in r3 (high half) and r4, the distance in r5. A 32-bit shift by 32 to 63 gives 0. */
#include "arch.h"
#include "asm.h"

	.text
function __lshrdi3
	subfic r6, r5, 32
	addi r7, r5, -32
	srw r4, r4, r5
	slw r6, r3, r6
	srw r7, r3, r7
	or r4, r4, r6
	or r4, r4, r7
	srw r3, r3, r5
	blr
end __lshrdi3

function __ashldi3
	subfic r6, r5, 32
	addi r7, r5, -32
	slw r3, r3, r5
	srw r6, r4, r6
	slw r7, r4, r7
	or r3, r3, r6
	or r3, r3, r7
	slw r4, r4, r5
	blr
end __ashldi3
