/*
 * Watchpoints of the guest's debug registers. A part of access.c.
 *
 * A CPU traps behind the instruction that made the access. So before the access the instruction is begun again, in a block
 * of its own, which calls `behind_instruction` at its end (x86/debug_registers.h).
 */
#include "debug_points.h"

static inline bool target_watches_page(CPUX86State *env, uint64_t page, uint64_t size, bool is_store)
{
    return points_touched(env, page, size, is_store) != 0;
}
#define target_watches_page target_watches_page

static inline void target_meet_watch(CPUX86State *env, target_ulong addr, unsigned size, bool is_store, uintptr_t ra)
{
    uint32_t touched = points_touched(env, addr, size, is_store);
    CPUState *cpu = env_cpu(env);
    TranslationBlock *tb;

    if (likely(touched == 0)) {
        return;
    }
    tb = tcg_tb_lookup(env->uc->tcg_ctx, ra);
    if (tb == NULL) {
        /* A function of loop.c accesses tables or a frame. The instruction cannot be begun again from here. */
        return;
    }
    if (repeats_for_points(tb)) {
        *DEBUG_MET(cpu) |= touched;
        return;
    }
    *DEBUG_MET(cpu) = 0;
    cpu_restore_state(cpu, ra, true);
    cpu->cflags_next_tb = 1 | CF_LAST_IO | curr_cflags();
    cpu_loop_exit_noexc(cpu);
}
#define target_meet_watch target_meet_watch
