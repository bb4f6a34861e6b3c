/*
 * z/Architecture. Part of access.c. An operand of MVC and similar instructions may lie in two pages; the helper calls
 * probe_access for each page. It has at most 4,096 bytes.
 */
#define TARGET_LARGEST_OPERAND 4096

/*
 * The storage-alteration event of PER (program-event recording): the guest watches stores to a range of addresses, which may
 * reach around the end. The event is recorded before the store, and raised behind the instruction as others are
 * (s390/hooks.h). `per_address` already is the instruction's.
 */
#include "internal.h"

static inline bool target_watches_page(CPUS390XState *env, uint64_t page, uint64_t size, bool is_store)
{
    uint64_t first = env->cregs[10], length = env->cregs[11] - first;

    return is_store && env->cregs[9] & PER_CR9_EVENT_STORE && (page - first <= length || first - page < size);
}
#define target_watches_page target_watches_page

static inline void target_meet_watch(CPUS390XState *env, target_ulong addr, unsigned size, bool is_store, uintptr_t ra)
{
    if (env->psw.mask & PSW_MASK_PER && target_watches_page(env, addr, size, is_store)) {
        env->per_perc_atmid |= PER_CODE_EVENT_STORE | get_per_atmid(env) | (env->psw.mask & PSW_MASK_ASC) >> 46;
    }
}
#define target_meet_watch target_meet_watch
