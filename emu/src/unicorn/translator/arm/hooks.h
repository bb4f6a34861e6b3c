/*
 * 32-bit ARM. Part of loop.c; defaults.h says what each hook is for.
 */
#include "exceptions.h"

/* The pc's offset, for jumps that remember where they led (jumps.h). */
#define TARGET_PC_AT offsetof(CPUARMState, regs[15])
