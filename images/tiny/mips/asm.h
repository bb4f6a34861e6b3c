/* Macros for the assembly files: functions, and instructions for both word widths. */
#pragma once

#ifdef __mips64
#define REG_L ld
#define REG_S sd
#define ADDU daddu
#define SUBU dsubu
#define ADDIU daddiu
#define SRL dsrl
#define MFC0 dmfc0
#define MTC0 dmtc0
#else
#define REG_L lw
#define REG_S sw
#define ADDU addu
#define SUBU subu
#define ADDIU addiu
#define SRL srl
#define MFC0 mfc0
#define MTC0 mtc0
#endif

	.set noreorder
	.set noat

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	/* The address of something that lies in the lowest or the highest 2 GiB. */
	.macro load register symbol
	lui \register, %hi(\symbol)
	ADDIU \register, \register, %lo(\symbol)
	.endm
