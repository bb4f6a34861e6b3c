/*
 * AArch64. Part of access.c. The bytes that DC ZVA zeroes. Its helper asks for the host memory of their first byte, and
 * stores bytes if it gets none.
 */
#define TARGET_ZEROED_BLOCK(env) (4u << env_archcpu(env)->dcz_blocksize)

#include "../arm/access.h"
#include "narrow_state.h"

static inline void target_before_report(CPUARMState *env)
{
    if (unlikely(is_narrow(env))) {
        show_narrow(env);
    }
}
#define target_before_report target_before_report
