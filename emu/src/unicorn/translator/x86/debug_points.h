/* The breakpoints and watchpoints that DR0 to DR3 and DR7 describe, for loop.c and access.c. */
enum {
    POINTS = 4,
    RUNS = 0,
    WRITES = 1,
    ACCESSES = 3,
    /* The error code with which a debug exception is raised that is a fault, not a trap. A debug exception has no error code
       of its own, and cpu/x86/trap.rs reads this. */
    DEBUG_FAULT = 1,
};

static inline bool is_enabled_point(CPUX86State *env, unsigned number)
{
    return env->dr[7] >> 2 * number & 3;
}

static inline unsigned kind_of_point(CPUX86State *env, unsigned number)
{
    return env->dr[7] >> (DR7_TYPE_SHIFT + 4 * number) & 3;
}

static inline bool is_break_point(CPUX86State *env, unsigned number)
{
    return is_enabled_point(env, number) && kind_of_point(env, number) == RUNS;
}

static inline bool is_watch_point(CPUX86State *env, unsigned number)
{
    return is_enabled_point(env, number) && kind_of_point(env, number) & WRITES;
}

/* A bit for each watchpoint that this access touches. */
static inline uint32_t points_touched(CPUX86State *env, target_ulong start, target_ulong size, bool is_store)
{
    /* The bits of DR7 that enable points. */
    enum { ANY_ENABLED = 0xff };
    uint32_t touched = 0;

    /* Each access to a page that the host watches asks here, and few guests have watchpoints of their own. */
    if (likely(!(env->dr[7] & ANY_ENABLED))) {
        return 0;
    }
    for (unsigned number = 0; number < POINTS; number++) {
        target_ulong code = env->dr[7] >> (DR7_LEN_SHIFT + 4 * number) & 3;
        target_ulong len = code == 2 ? 8 : code + 1, at = env->dr[number] & -len;
        if (is_watch_point(env, number) && (is_store || kind_of_point(env, number) == ACCESSES)
            && (start - at < len || at - start < size)) {
            touched |= 1u << number;
        }
    }
    return touched;
}

/* Whether the block has one instruction, which is repeated because it meets a watchpoint of the guest. Nothing else sets
   this flag. */
static inline bool repeats_for_points(const TranslationBlock *tb)
{
    return tb_cflags(tb) & CF_LAST_IO;
}
