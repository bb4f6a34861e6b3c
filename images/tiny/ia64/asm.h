/* Macros for the assembly files. */
#pragma once

	.macro function name
	.balign 16
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	/* A word of saved registers, whose address is in `base`, by way of `pointer`. */
	.macro put base, pointer, offset, register
	adds \pointer = \offset, \base
	;;
	st8 [\pointer] = \register
	.endm
	.macro get base, pointer, offset, register
	adds \pointer = \offset, \base
	;;
	ld8 \register = [\pointer]
	.endm
	/* A general register with its NaT bit. */
	.macro spill base, pointer, offset, register
	adds \pointer = \offset, \base
	;;
	st8.spill [\pointer] = \register
	.endm
	.macro fill base, pointer, offset, register
	adds \pointer = \offset, \base
	;;
	ld8.fill \register = [\pointer]
	.endm
