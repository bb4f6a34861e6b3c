/*
 * 32-bit ARM. Part of loop.c; defaults.h says what each hook is for.
 */
#include "exceptions.h"
#include "debug_registers.h"

/* The pc's offset in the state. With it jumps.h finds jumps to constant addresses and caches their targets. */
#define TARGET_PC_AT offsetof(CPUARMState, regs[15])
