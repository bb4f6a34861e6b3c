/* Watchpoints of the guest's debug registers, for both widths of ARM. A part of access.c. The exception comes before the access. */
#include "debug_points.h"

static inline bool target_watches_page(CPUARMState *env, uint64_t page, uint64_t size, bool is_store)
{
    for (unsigned number = 0; number < POINTS; number++) {
        if (is_touched(env, number, page, size, is_store)) {
            return true;
        }
    }
    return false;
}
#define target_watches_page target_watches_page

static inline void target_meet_watch(CPUARMState *env, target_ulong addr, unsigned size, bool is_store, uintptr_t ra)
{
    /* Each access to a page that the host watches asks here, and few guests have watchpoints of their own. */
    if (likely(!are_points_on(env))) {
        return;
    }
    for (unsigned number = 0; number < POINTS; number++) {
        if (is_touched(env, number, addr, size, is_store) && can_hit(env, env->cp15.dbgwcr[number])) {
            uint64_t start, bytes;

            watch_range(env, number, &start, &bytes);
            raise_debug(env, EXCP_DATA_ABORT, syn_watchpoint(is_for_own_level(env), 0, is_store),
                        addr - start < bytes ? addr : start, is_store, ra);
        }
    }
}
#define target_meet_watch target_meet_watch
