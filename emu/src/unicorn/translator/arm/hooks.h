/*
 * 32-bit ARM. Part of loop.c; defaults.h says what each hook is for.
 */
#include "exceptions.h"
#include "debug_registers.h"

static void target_make_ready(struct uc_struct *uc)
{
    answer_debug_registers(uc);
}
#define target_make_ready target_make_ready

static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    return ask_for_own_break(db, cpu, machine) ? BY_THE_LIBRARY : IN_NEXT_BLOCK;
}
#define target_translate target_translate

/* The pc's offset in the state. With it jumps.h finds jumps to constant addresses and caches their targets. */
#define TARGET_PC_AT offsetof(CPUARMState, regs[15])
