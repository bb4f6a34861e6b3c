/* Macros for the assembly files of 64-bit PowerPC: functions under both ABIs, and 64-bit constants. */
#pragma once

	/* The symbol of a function is its descriptor (ELFv1) or its code (ELFv2). CODE(name) is the symbol of the code. */
#if _CALL_ELF == 1
#define CODE(name) .name
	.macro function name
	.pushsection .opd, "aw"
	.globl \name
	.type \name, @function
	.size \name, 24
\name:
	.quad .\name, .TOC.@tocbase, 0
	.popsection
	.globl .\name
	.type .\name, @function
.\name:
	.endm
	.macro end name
	.size .\name, . - .\name
	.endm
	/* Calls the function to whose symbol r12 points. Changes r0. r2 stays, because all functions have the same TOC. */
	.macro call_r12
	ld r0, 0(r12)
	mtctr r0
	bctrl
	.endm
#else
#define CODE(name) name
	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm
	.macro call_r12
	mtctr r12
	bctrl
	.endm
#endif

	/* Loads a 64-bit number or address. */
	.macro load register value
	lis \register, (\value)@highest
	ori \register, \register, (\value)@higher
	sldi \register, \register, 32
	oris \register, \register, (\value)@high
	ori \register, \register, (\value)@l
	.endm
