/* Macros for the assembly files of 32-bit PowerPC. */
#pragma once

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro end name
	.size \name, . - \name
	.endm

	.macro load register value
	lis \register, (\value)@h
	ori \register, \register, (\value)@l
	.endm
