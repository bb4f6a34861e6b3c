/* Macros for the assembly files. */
#pragma once

	.level 1.1

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	.macro load symbol, register
	ldil L%\symbol, \register
	ldo R%\symbol(\register), \register
	.endm
