/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only, and is the
 * same in both widths and both byte orders. */
#include "arch.h"
#include "asm.h"

#define FRAME (12 * WORD)

	.text
function instruction_zoo /* a0: a number; returns another */
	ADDIU $29, $29, -FRAME
	REG_S $31, FRAME - WORD($29)
	REG_S $17, FRAME - 2 * WORD($29)
	REG_S $16, FRAME - 3 * WORD($29)
	sll $16, $4, 0

	/* arithmetic, shifts, bits */
	lui $8, 0x193
	ori $8, $8, 0x100
	mul $9, $16, $8
	rotr $10, $16, 27
	xor $9, $9, $10
	ins $9, $10, 4, 9
	ext $11, $9, 11, 13
	seb $12, $10
	seh $13, $9
	mult $11, $9
	madd $12, $13
	mfhi $14
	mflo $15
	xor $9, $9, $14
	addu $9, $9, $15
	multu $9, $10
	maddu $11, $12
	msub $13, $9
	mflo $8
	addu $9, $9, $8
	mtlo $9
	mthi $8
	mfhi $14
	subu $9, $9, $14
	clz $8, $9
	clo $10, $9
	wsbh $11, $9
	addu $9, $9, $8
	subu $9, $9, $10
	xor $9, $9, $11
	ori $8, $13, 1
	divu $0, $9, $8
	mflo $10
	mfhi $11
	addu $9, $9, $10
	div $0, $9, $8
	mfhi $10
	nor $9, $9, $10
	addiu $8, $0, 11
	sllv $10, $9, $8
	srav $11, $9, $8
	rotrv $12, $9, $8
	xor $9, $10, $11
	subu $9, $9, $12
	slt $10, $9, $12
	sltu $11, $9, $12
	slti $13, $9, -77
	sltiu $14, $9, 77
	sll $10, $10, 3
	or $10, $10, $11
	addu $9, $9, $10
	subu $9, $9, $13
	addu $9, $9, $14
	movn $9, $12, $13
	movz $12, $9, $11
	addu $9, $9, $12
	sll $9, $9, 0
	teq $0, $29
	tltu $29, $0
	tne $9, $9
	tgei $0, 1
	sync
	ehb
	pref 0, 0($29)
	rdhwr $10, $0 /* the number of the CPU; the result is not used */
	b 1f
	mfc0 $10, $9 /* the time; the result is not used */
1:
#ifdef __mips64
	/* of 64 bits, with the same results as below */
	dsll32 $10, $9, 7
	dsra32 $10, $10, 7
	daddu $11, $9, $10
	dsubu $11, $11, $10
	dext $12, $9, 0, 16
	dins $11, $12, 0, 16
	dmult $10, $12
	mflo $13
	sll $13, $13, 0
	dsrl32 $14, $11, 0
	dsll $14, $14, 3
	dclz $14, $0
	dsbh $8, $9
	dshd $8, $8
	drotr32 $8, $8, 0
	andi $14, $14, 0
	sll $9, $11, 0
#else
	sll $10, $9, 7
	sra $10, $10, 7
	ext $12, $9, 0, 16
	mul $13, $10, $12
#endif
	xor $9, $9, $13

	/* memory: constants behind the TLB, signed and unsigned, unaligned, conditional */
	load $10, zoo_table
	andi $11, $9, 3
	sll $11, $11, 2
	ADDU $11, $11, $10
	lw $8, 0($11)
	addu $9, $9, $8
	sw $9, FRAME_HEAD($29)
#ifdef __MIPSEB__
	swl $9, FRAME_HEAD + 5($29)
	swr $9, FRAME_HEAD + 8($29)
	lwl $12, FRAME_HEAD + 5($29)
	lwr $12, FRAME_HEAD + 8($29)
	lh $13, FRAME_HEAD + 2($29)
	lbu $14, FRAME_HEAD + 2($29)
#else
	swr $9, FRAME_HEAD + 5($29)
	swl $9, FRAME_HEAD + 8($29)
	lwr $12, FRAME_HEAD + 5($29)
	lwl $12, FRAME_HEAD + 8($29)
	lh $13, FRAME_HEAD($29)
	lbu $14, FRAME_HEAD + 1($29)
#endif
	sll $12, $12, 1
	addu $9, $9, $12
	addu $9, $9, $13
	subu $9, $9, $14
1:	ll $11, FRAME_HEAD($29)
	addiu $11, $11, 77
	sc $11, FRAME_HEAD($29)
	beqz $11, 1b
	lhu $12, FRAME_HEAD($29)
	lw $11, FRAME_HEAD($29)
	sb $11, FRAME_HEAD($29)
	sh $11, FRAME_HEAD($29)
	addu $9, $9, $11

	/* branches of every kind, with an instruction in each delay slot */
	addiu $8, $0, 5
2:	sll $10, $9, 1
	addu $9, $9, $10
	bgtz $8, 2b
	addiu $8, $8, -1
	bltzl $8, 3f
	addiu $9, $9, 21 /* executed: taken */
	addiu $9, $9, 1000
3:	bgezl $8, 4f
	addiu $9, $9, 3000 /* annulled: not taken */
	xori $9, $9, 0x55
4:	blez $8, 5f
	subu $9, $9, $8
	xori $9, $9, 0x66
5:	bltz $9, 6f
	addiu $9, $9, 1
	not $9, $9
6:	andi $10, $9, 1
	beql $10, $0, 7f
	addiu $9, $9, 9
	bnel $10, $0, 7f
	addiu $9, $9, 19
	addiu $9, $9, 7777
7:	blezl $9, 8f
	addiu $9, $9, 5
	bgtzl $9, 8f
	addiu $9, $9, 6
8:	andi $10, $9, 3
	load $11, zoo_branches
	sll $10, $10, WORD_SHIFT
	ADDU $11, $11, $10
	REG_L $11, 0($11)
	jr $11
	sll $17, $9, 0
.Lseven:
	addiu $17, $17, 7
.Leight:
	xori $17, $17, 0xff

	/* calls, in every way; their arguments are computed in the delay slots */
.Lnine:
	jal zoo_helper
	move $4, $17
	bal zoo_helper
	move $4, $2
	bgezal $0, zoo_helper
	move $4, $2
	bltzal $0, zoo_helper /* not taken, and leaves its address all the same */
	move $4, $2
	load $25, zoo_pointer
	REG_L $25, 0($25)
	jalr $25
	addiu $4, $4, 4
	load $25, zoo_other
	jalr $24, $25
	move $4, $2
	addiu $8, $0, -1
	bltzall $8, zoo_helper
	move $4, $2
	bgezall $8, zoo_helper
	move $4, $0
	REG_L $31, FRAME - WORD($29)
	REG_L $17, FRAME - 2 * WORD($29)
	REG_L $16, FRAME - 3 * WORD($29)
	jr $31
	ADDIU $29, $29, FRAME
end instruction_zoo

function zoo_helper
	sll $8, $4, 13
	xor $4, $4, $8
	srl $8, $4, 17
	jr $31
	xor $2, $4, $8
end zoo_helper

function zoo_other /* the return address is in another register */
	sll $8, $4, 5
	jr $24
	addu $2, $4, $8
end zoo_other

	.section .rodata
	.balign 8
zoo_table:
	.word 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe
zoo_branches:
#ifdef __mips64
	.dword .Lseven, .Leight, .Lnine, .Leight
zoo_pointer:
	.dword zoo_helper
#else
	.word .Lseven, .Leight, .Lnine, .Leight
zoo_pointer:
	.word zoo_helper
#endif
