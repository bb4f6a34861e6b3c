/*
 * The registers of 32-bit programs (AArch32 at EL0) as the machine sees them: those of AArch64 that the architecture maps
 * them to. Part of loop.c and access.c.
 *
 * Unicorn keeps the registers of 32-bit code beside those of 64-bit code, and copies them at an exception entry that this
 * machine does not use. While 32-bit code runs, Unicorn's own fields for it are valid. Before each callback they are
 * copied. Between runs the copies are valid: X0 to X14, the pc, and PSTATE in the layout of SPSR_EL1.
 */

static inline bool is_narrow(CPUARMState *env)
{
    return !env->aarch64;
}

/* Copies the state of 32-bit code to where the machine reads it. The stack pointer in use is R13. In the middle of a block the
   pc and the IT state are not valid. */
static inline void show_narrow(CPUARMState *env)
{
    for (unsigned number = 0; number < 15; number++) {
        env->xregs[number] = env->regs[number];
    }
    env->xregs[31] = env->regs[13];
    env->pc = env->regs[15];
    /* Unicorn sets PSTATE.SS in two places and clears it in this one. */
    env->pstate = (cpsr_read(env) & ~(CPSR_NZCV | CPSR_AIF | PSTATE_SS)) | (env->pstate & PSTATE_SS);
}
