/* A collection of less common instructions, so that tests can probe each one. The result depends on the argument only, and is the
   same in both widths. */
#include "arch.h"
#include "asm.h"

	.text
	.globl instruction_zoo
	.type instruction_zoo, @function
instruction_zoo: /* a0: a number; returns another. s1 holds the sum, sign-extended from 32 bits */
	addi sp, sp, -64
	REG_S ra, 56(sp)
	REG_S s0, 48(sp)
	REG_S s1, 40(sp)
	addi s0, sp, 64
	ADDIW s1, a0, 0

	/* constants, arithmetic, shifts, compressed where that exists */
	lui a1, 0x1000
	addi a1, a1, 0x193
	MULW s1, s1, a1
	SRLIW a2, s1, 7
	SLLIW a3, s1, 5
	xor s1, s1, a2
	ADDW s1, s1, a3
	SRAIW a4, s1, 3
	SUBW s1, s1, a4
	andi a5, s1, 31
	SLLW a2, s1, a5
	SRLW a3, s1, a5
	SRAW a4, s1, a5
	or a2, a2, a3
	and a4, a4, a2
	xor s1, s1, a4
	xori s1, s1, 0x5a5
	ori a2, a2, 1
	not a3, a2
	neg a3, a3
	ADDIW a3, a3, 0
	slti a4, s1, -5
	sltiu a5, s1, 77
	slt t0, a2, s1
	sltu t1, a2, s1
	ADDW s1, s1, a4
	ADDW s1, s1, a5
	ADDW s1, s1, t0
	SLLIW t1, t1, 9
	ADDW s1, s1, t1
	mv t2, s1
	c.mv a4, s1
	c.li a5, -7
	c.add a4, a5
	c.sub a4, a2
	c.and a4, a5
	c.or a4, a2
	c.xor a4, a3
	c.andi a4, 30
	c.slli a4, 3
	c.srli a4, 1
	c.srai a4, 1
	c.lui a5, 3
	c.addi a5, -3
	c.nop
	ADDW s1, s1, a4
	ADDW s1, s1, a5

	/* multiplication and division, by zero too */
	DIVW a2, s1, a1
	DIVUW a3, s1, a1
	REMW a4, s1, a1
	REMUW a5, s1, a1
	ADDW a2, a2, a3
	ADDW a4, a4, a5
	xor s1, s1, a2
	ADDW s1, s1, a4
	DIVW a2, s1, zero
	REMUW a3, s1, zero
	ADDW s1, a2, a3
	andi a2, s1, 1023
	andi a3, a1, 1023
	mulh a4, a2, a3
	mulhu a5, a2, a3
	mulhsu t0, a2, a3
	ADDW s1, s1, a4
	ADDW s1, s1, a5
	ADDW s1, s1, t0
#if __riscv_xlen == 64
	c.addiw a2, 5
	c.addw a2, a3
	c.subw a2, a3
	c.addiw a2, -5
	sext.w a2, a2
	lwu a4, zoo_word
	ld a5, zoo_long
	sd a5, 8(sp)
	c.ldsp a5, 8(sp)
	c.sdsp a5, 8(sp)
	c.addi4spn a4, sp, 8
	c.ld a5, 0(a4)
	c.sd a5, 0(a4)
	amoadd.d zero, a2, (a4)
1:	lr.d a3, (a4)
	sc.d a5, a3, (a4)
	bnez a5, 1b
#endif

	/* addresses and memory */
	lla a4, zoo_word
	lw a5, 0(a4)
	xor s1, s1, a5
	lw a2, zoo_word
	ADDW s1, s1, a2
	lb a2, 1(a4)
	lbu a3, 2(a4)
	lh a5, 0(a4)
	lhu t0, 2(a4)
	ADDW a2, a2, a3
	ADDW a5, a5, t0
	ADDW s1, s1, a2
	xor s1, s1, a5
	ADDIW s1, s1, 0
	sw s1, 16(sp)
	sb s1, 17(sp)
	sh s1, 18(sp)
	c.lwsp a2, 16(sp)
	c.swsp a2, 20(sp)
	c.addi4spn a3, sp, 16
	c.lw a4, 4(a3)
	c.sw a4, 8(a3)
	ADDW s1, s1, a4
	c.addi16sp sp, -32
	c.addi16sp sp, 32

	/* atomic accesses */
	amoadd.w a2, s1, (a3)
	amoxor.w a4, a2, (a3)
	amoor.w.aq a5, a4, (a3)
	amoand.w.rl a2, s1, (a3)
	amomax.w a4, a2, (a3)
	amominu.w.aqrl a5, a4, (a3)
	amoswap.w a4, s1, (a3)
	ADDW s1, s1, a4
	ADDW s1, s1, a5
1:	lr.w.aq a4, (a3)
	ADDIW a4, a4, 77
	sc.w.rl a5, a4, (a3)
	c.bnez a5, 1b
	ADDW s1, s1, a4
	fence rw, w
	fence.tso
	fence.i

	/* branches */
	li a2, 5
2:	SLLIW a3, s1, 1
	ADDW s1, s1, a3
	addi a2, a2, -1
	bgtz a2, 2b
	c.beqz a2, 3f
	not s1, s1
3:	blt s1, zero, 4f
	xori s1, s1, -0x555
4:	bge s1, a2, 5f
	SRLIW s1, s1, 1
5:	bltu a1, s1, 6f
	SUBW s1, a1, s1
6:	bgeu s1, a1, 7f
	SUBW s1, zero, s1
7:	beq s1, a1, 8f
	bne s1, a1, 8f
	c.ebreak
8:	c.j 9f
	c.ebreak
9:	andi a2, s1, 3
	slli a2, a2, 2
	lla a3, zoo_branches
	add a3, a3, a2
	lw a4, 0(a3)
	lla a3, zoo_branches
	add a3, a3, a4
	jr a3
.Lseven:
	ADDIW s1, s1, 7
.Leight:
	xori s1, s1, 0xff
.Lnine:
	mv a0, s1
	.option push
	.option norelax
	call zoo_helper
	.option pop
	jal zoo_helper
	jal t0, zoo_other_link
	lla a3, zoo_helper
	jalr a3
	lla a3, zoo_helper - 8
	jalr ra, 8(a3)
	REG_L ra, zoo_pointer
	jalr ra, ra /* the base is the link register */

	REG_L ra, 56(sp)
	REG_L s0, 48(sp)
	REG_L s1, 40(sp)
	addi sp, sp, 64
	ret
	.size instruction_zoo, . - instruction_zoo

	.globl zoo_helper
	.type zoo_helper, @function
zoo_helper: /* returns by another register */
	mv t1, ra
	SLLIW t2, a0, 13
	xor a0, a0, t2
	SRLIW t2, a0, 17
	xor a0, a0, t2
	ADDIW a0, a0, 0
	jr t1
	.size zoo_helper, . - zoo_helper

	.globl zoo_other_link
	.type zoo_other_link, @function
zoo_other_link: /* called with t0 as link register, as the tracer is */
	ADDIW a0, a0, 1
	jr t0
	.size zoo_other_link, . - zoo_other_link

	.section .rodata
	.balign 8
zoo_long:
	.quad 0x0badcafe13572468
zoo_word:
	.word 0x85c9e1f2
zoo_branches:
	.word .Lseven - zoo_branches, .Leight - zoo_branches, .Lnine - zoo_branches, .Leight - zoo_branches
	.balign 8
zoo_pointer:
	PTR zoo_helper
