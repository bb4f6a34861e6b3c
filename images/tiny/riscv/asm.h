/* Macros for the assembly files: functions, and instructions for both word widths. */
#pragma once

#if __riscv_xlen == 64
#define REG_L ld
#define REG_S sd
#define PTR .quad
/* Arithmetic on the low 32 bits of registers. */
#define ADDW addw
#define SUBW subw
#define ADDIW addiw
#define MULW mulw
#define DIVW divw
#define DIVUW divuw
#define REMW remw
#define REMUW remuw
#define SLLIW slliw
#define SRLIW srliw
#define SRAIW sraiw
#define SLLW sllw
#define SRLW srlw
#define SRAW sraw
#else
#define REG_L lw
#define REG_S sw
#define PTR .long
#define ADDW add
#define SUBW sub
#define ADDIW addi
#define MULW mul
#define DIVW div
#define DIVUW divu
#define REMW rem
#define REMUW remu
#define SLLIW slli
#define SRLIW srli
#define SRAIW srai
#define SLLW sll
#define SRLW srl
#define SRAW sra
#endif

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm
