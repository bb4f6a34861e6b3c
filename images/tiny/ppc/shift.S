/* Shifts of 64 bits that the compiler asks for: the number in r3 (the higher half) and r4, the distance in r5. A distance of 32 and more gives 0 here. */
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
