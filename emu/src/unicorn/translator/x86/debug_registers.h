/*
 * DR0 to DR7 (docs/unicorn.md, "The guest's debug registers"). A part of x86/hooks.h.
 */
#include "debug_points.h"

/* Sets DR6 and clears DR7.GD, as the CPU does when it raises a debug exception. */
static void note_debug(CPUX86State *env, uint32_t status)
{
    env->dr[6] = (env->dr[6] & ~UINT64_C(0xf)) | status;
    env->dr[7] &= ~(target_ulong)DR7_GD;
}

/* Emitted in front of the instruction at a breakpoint. */
static void meet_break(CPUX86State *env, uint64_t machine, uint64_t pc, uint64_t unused)
{
    uint32_t hit = 0;

    for (unsigned number = 0; number < POINTS; number++) {
        hit |= is_break_point(env, number) && env->dr[number] == pc ? 1u << number : 0;
    }
    if (hit) {
        AS_BEFORE(env);
        note_debug(env, hit);
        raise_exception_err(env, EXCP01_DB, DEBUG_FAULT);
    }
    HERE;
}

/* The points that the instruction has met, if its block is one that repeats it for them (x86/access.h). */
static uint32_t points_met(CPUX86State *env, uintptr_t host)
{
    TranslationBlock *tb = tcg_tb_lookup(env->uc->tcg_ctx, host);
    uint64_t *met = DEBUG_MET(env_cpu(env));
    uint32_t points = tb != NULL && repeats_for_points(tb) ? *met : 0;

    *met = 0;
    return points;
}

/* Stands in for `helper_debug` of misc_helper.c, 2.1.5, which blocks with `singlestep_enabled` call at their end. */
static void behind_instruction(CPUX86State *env)
{
    uint32_t points = points_met(env, GETPC());

    if (points) {
        note_debug(env, points);
        env->error_code = 0;
        env->exception_is_int = 0;
        env->exception_next_eip = env->eip;
        tell(env_cpu(env), EXCP01_DB);
    }
}

/* Stands in for `helper_single_step` of bpt_helper.c, 2.1.5. */
static void step(CPUX86State *env)
{
    note_debug(env, points_met(env, GETPC()) | DR6_BS);
    raise_exception_err(env, EXCP01_DB, 0);
    HERE;
}

/* The number of a debug register by its field in the instruction. Raises an exception if there is none, or if GD protects
   it. */
static int debug_register(CPUX86State *env, int field, uintptr_t host)
{
    if (field == 4 || field == 5) {
        if (env->cr[4] & CR4_DE_MASK) {
            raise_exception_err_ra(env, EXCP06_ILLOP, 0, host);
        }
        field += 2;
    }
    if (env->dr[7] & DR7_GD) {
        note_debug(env, DR6_BD);
        raise_exception_err_ra(env, EXCP01_DB, DEBUG_FAULT, host);
    }
    return field;
}

/* Stands in for `helper_get_dr` of bpt_helper.c, 2.1.5, which ignores GD. */
static target_ulong read_debug(CPUX86State *env, int field)
{
    return env->dr[debug_register(env, field, GETPC())];
}

/* Stands in for `helper_set_dr` of bpt_helper.c, 2.1.5, which keeps lists of enabled breakpoints beside the state and drops
   all translated code, the running block too. */
static void write_debug(CPUX86State *env, int field, target_ulong value)
{
    int number = debug_register(env, field, GETPC());

    switch (number) {
    case 6:
        env->dr[6] = value | DR6_FIXED_1;
        break;
    case 7:
        env->dr[7] = (uint32_t)value | DR7_FIXED_1;
        break;
    default:
        env->dr[number] = value;
    }
    follow_debug_registers(env_cpu(env));
    HERE;
}

static void target_breaks(CPUState *cpu, struct break_set *breaks)
{
    CPUX86State *env = cpu->env_ptr;

    for (unsigned number = 0; number < POINTS; number++) {
        if (is_break_point(env, number)) {
            breaks->at[breaks->count++] = env->dr[number];
        }
    }
}
#define target_breaks target_breaks

static bool target_watches(CPUState *cpu)
{
    CPUX86State *env = cpu->env_ptr;
    bool watches = false;

    for (unsigned number = 0; number < POINTS; number++) {
        watches |= is_watch_point(env, number);
    }
    return watches;
}
#define target_watches target_watches

/* A block that repeats an instruction calls `behind_instruction` at its end. So does a block that begins with RF set while
   there are breakpoints: it has one instruction, and RF is cleared behind that, whatever the instruction is. */
static bool target_ends_by_call(const TranslationBlock *tb)
{
    bool resumes = has_breaks(tb) && tb->flags & HF_RF_MASK;

    return (repeats_for_points(tb) || resumes) && !(tb->flags & HF_TF_MASK);
}
#define target_ends_by_call target_ends_by_call

static void target_before_block(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db)
{
    if (has_breaks(db->tb) && db->tb->flags & HF_RF_MASK) {
        db->max_insns = 1;
    }
}
#define target_before_block target_before_block

/* See `ask_for_break`. With RF set the CPU runs the instruction at a breakpoint. */
static bool ask_for_breakpoint(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db)
{
    return ask_for_break(s, machine, db, db->tb->flags & HF_RF_MASK ? NULL : (void *)(uintptr_t)meet_break);
}
