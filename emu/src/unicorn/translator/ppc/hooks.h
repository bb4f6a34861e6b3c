/*
 * 32-bit PowerPC (docs/unicorn.md, "PowerPC"). Part of loop.c; defaults.h says what each hook is for.
 */
#include "answers.h"
#include "rows.h"

/*
 * Stands in for `helper_store_msr` of excp_helper.c, 2.1.5. The POW bit makes the CPU doze. Unicorn then ends the run in
 * such a way that it starts the same run again, for ever. Here the run ends as it does at other halting instructions.
 */
static void set_machine_state(CPUPPCState *env, target_ulong value)
{
    const target_ulong doze = (target_ulong)1 << MSR_POW;
    CPUState *cpu = env_cpu(env);

    HELPER(store_msr)(env, value & ~doze);
    if (value & doze && env->check_pow(env)) {
        cpu->halted = 1;
        cpu->exception_index = EXCP_HLT;
        cpu_loop_exit(cpu);
    }
}

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(store_msr), set_machine_state, false },
    { NULL, NULL, false },
};
#define target_instead target_instead

/*
 * This kind of CPU has no fast walk. The function only prevents a crash of Unicorn's walk: in a direct-store segment
 * that depends on `access_type`, which Unicorn's translator does not set, and an unknown type ends the process. So it
 * becomes an integer access.
 */
static bool target_walk(CPUState *cpu, vaddr address, int access, int mode)
{
    CPUPPCState *env = cpu->env_ptr;

    switch (env->access_type) {
    case ACCESS_INT:
    case ACCESS_FLOAT:
    case ACCESS_RES:
    case ACCESS_CACHE:
    case ACCESS_EXT:
        break;
    default:
        env->access_type = ACCESS_INT;
    }
    return false;
}
#define target_walk target_walk

static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    ask_before(cpu->uc->tcg_ctx, machine, db, next_word(db, cpu));
    return BY_THE_LIBRARY;
}
#define target_translate target_translate
