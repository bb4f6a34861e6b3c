/* The breakpoints and watchpoints that DBGBVR, DBGBCR, DBGWVR and DBGWCR describe, for loop.c and access.c. */
#include "internals.h"

/* The most that the architecture allows of each kind. */
enum { POINTS = 16 };

static inline bool is_enabled_point(uint64_t control)
{
    return control & 1;
}

/* Whether a linked point has the present context: its breakpoint compares the context's number. */
static inline bool is_linked_to(CPUARMState *env, unsigned number)
{
    uint64_t control = env->cp15.dbgbcr[number];
    enum { CONTEXT_LINKED = 3 };

    return is_enabled_point(control) && extract64(control, 20, 4) == CONTEXT_LINKED
        && (uint32_t)env->cp15.contextidr_el[1] == (uint32_t)env->cp15.dbgbvr[number];
}

/* Whether the guest has enabled debug exceptions of points (MDSCR_EL1.MDE). */
static inline bool are_points_on(CPUARMState *env)
{
    enum { ENABLE_MONITOR = 15 };

    return extract64(env->cp15.mdscr_el1, ENABLE_MONITOR, 1);
}

/* Whether a point with this control register can hit now: debug exceptions are enabled, the level is among those that it names,
   and so is the context. Breakpoints and watchpoints have these fields at the same places. */
static inline bool can_hit(CPUARMState *env, uint64_t control)
{
    unsigned level = arm_current_el(env), levels = extract64(control, 1, 2), state = extract64(control, 14, 2);

    return are_points_on(env) && arm_generate_debug_exceptions(env)
        && (state == 0 || (state == 2) == arm_is_secure(env))
        && (level > 1 ? extract64(control, 13, 1) : levels >> (level == 0 ? 1 : 0) & 1)
        && (!extract64(control, 20, 1) || is_linked_to(env, extract64(control, 16, 4)));
}

/* Raises the exception of a point. 32-bit code reads the method of entry in DBGDSCR; the library would write it when it delivers
   the exception. `host` is the place in translated code. */
static inline void QEMU_NORETURN
raise_debug(CPUARMState *env, uint32_t number, uint32_t syndrome, uint64_t address, bool is_store, uintptr_t host)
{
    enum { BREAKPOINT_METHOD = 1, WATCHPOINT_METHOD = 10, METHOD_BIT = 2, METHOD_BITS = 4, WRITE_BIT = 11 };
    int level = arm_debug_target_el(env);
    bool is_watchpoint = number == EXCP_DATA_ABORT;

    /* It overwrites the syndrome. */
    cpu_restore_state(env_cpu(env), host, true);
    env->exception.vaddress = address;
    env->exception.fsr = arm_debug_exception_fsr(env) | is_store << WRITE_BIT;
    if (!arm_el_is_aa64(env, level)) {
        env->cp15.mdscr_el1 = deposit64(env->cp15.mdscr_el1, METHOD_BIT, METHOD_BITS, is_watchpoint ? WATCHPOINT_METHOD : BREAKPOINT_METHOD);
    }
    raise_exception(env, number, syndrome, level);
}

static inline bool is_for_own_level(CPUARMState *env)
{
    return arm_debug_target_el(env) == arm_current_el(env);
}

/* The address of a breakpoint. False: it is none, or not enabled. */
static inline bool break_address(CPUARMState *env, unsigned number, uint64_t *address)
{
    uint64_t control = env->cp15.dbgbcr[number];
    unsigned bytes = extract64(control, 5, 4);
    enum { UPPER_HALF = 0xc, ADDRESS_LINKED = 1 };

    *address = (target_ulong)((sextract64(env->cp15.dbgbvr[number], 0, 49) & ~UINT64_C(3)) + (bytes == UPPER_HALF ? 2 : 0));
    return is_enabled_point(control) && extract64(control, 20, 4) <= ADDRESS_LINKED && bytes != 0;
}

/* The bytes that a watchpoint watches. False: it is not enabled. */
static inline bool watch_range(CPUARMState *env, unsigned number, uint64_t *start, uint64_t *size)
{
    uint64_t control = env->cp15.dbgwcr[number], value = env->cp15.dbgwvr[number];
    unsigned mask = extract64(control, 24, 5), bytes = extract64(control, 5, 8);

    if (mask >= 3) {
        *size = UINT64_C(1) << mask;
        *start = value & -*size;
    } else {
        /* An address that is a multiple of 4 only has four bytes. */
        bytes &= value & 4 ? 0xf : 0xff;
        *start = value + (bytes ? ctz32(bytes) : 0);
        *size = bytes ? cto32(bytes >> ctz32(bytes)) : 0;
    }
    *start = (target_ulong)*start;
    return is_enabled_point(control) && extract64(control, 3, 2) != 0 && *size != 0 && (mask == 0 || mask >= 3);
}

/* Whether a watchpoint is for this kind of access to these bytes. */
static inline bool is_touched(CPUARMState *env, unsigned number, uint64_t at, uint64_t bytes, bool is_store)
{
    uint64_t start, size;

    return watch_range(env, number, &start, &size) && extract64(env->cp15.dbgwcr[number], is_store ? 4 : 3, 1)
        && (at - start < size || start - at < bytes);
}
