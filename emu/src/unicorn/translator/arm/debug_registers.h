/*
 * The debug registers of ARM, both widths (docs/unicorn.md, "The guest's debug registers"). A part of hooks.h.
 */
#include "debug_points.h"
#include "kvm-consts.h"

/* Emitted in front of the instruction at a breakpoint. */
static void meet_break(CPUARMState *env, uint64_t machine, uint64_t pc, uint64_t unused)
{
    for (unsigned number = 0; number < POINTS; number++) {
        uint64_t address;
        if (break_address(env, number, &address) && address == pc && can_hit(env, env->cp15.dbgbcr[number])) {
            raise_debug(env, EXCP_PREFETCH_ABORT, syn_breakpoint(is_for_own_level(env)), 0, false, GETPC());
        }
    }
    HERE;
}

/*
 * Stand in for `dbgbvr_write`, `dbgbcr_write`, `dbgwvr_write` and `dbgwcr_write` of helper.c, 2.1.5, which keep lists beside the
 * state and drop all translated code.
 */
static void put_debug(CPUARMState *env, const ARMCPRegInfo *ri, uint64_t *field, uint64_t value)
{
    *field = ri->state == ARM_CP_STATE_AA64 ? value : (uint32_t)value;
    follow_debug_registers(env_cpu(env));
}

static void write_break_address(CPUARMState *env, const ARMCPRegInfo *ri, uint64_t value)
{
    put_debug(env, ri, &env->cp15.dbgbvr[ri->crm], value);
}

static void write_break_control(CPUARMState *env, const ARMCPRegInfo *ri, uint64_t value)
{
    /* The bytes of a half are selected together. */
    value = deposit64(value, 6, 1, extract64(value, 5, 1));
    value = deposit64(value, 8, 1, extract64(value, 7, 1));
    put_debug(env, ri, &env->cp15.dbgbcr[ri->crm], value);
}

static void write_watch_address(CPUARMState *env, const ARMCPRegInfo *ri, uint64_t value)
{
    /* The upper bits are copies of bit 48. */
    put_debug(env, ri, &env->cp15.dbgwvr[ri->crm], sextract64(value, 0, 49) & ~UINT64_C(3));
}

static void write_watch_control(CPUARMState *env, const ARMCPRegInfo *ri, uint64_t value)
{
    put_debug(env, ri, &env->cp15.dbgwcr[ri->crm], value);
}

/* Makes writes of the debug registers call the functions above. A number of registers that the model does not have is not in the
   library's table. */
static void answer_debug_registers(struct uc_struct *uc)
{
    static CPWriteFn *const writes[] = {write_break_address, write_break_control, write_watch_address, write_watch_control};
    GHashTable *known = ARM_CPU(uc->cpu)->cp_regs;

    for (unsigned number = 0; number < POINTS; number++) {
        for (unsigned which = 0; which < 4; which++) {
            const uint32_t names[] = {
                ENCODE_AA64_CP_REG(CP_REG_ARM64_SYSREG_CP, 0, number, 2, 0, 4 + which),
                ENCODE_CP_REG(14, 0, 0, 0, number, 0, 4 + which),
                ENCODE_CP_REG(14, 0, 1, 0, number, 0, 4 + which),
            };
            for (unsigned name = 0; name < 3; name++) {
                ARMCPRegInfo *ri = (ARMCPRegInfo *)get_arm_cp_reginfo(known, names[name]);
                if (ri != NULL && ri->writefn != NULL) {
                    ri->writefn = writes[which];
                }
            }
        }
    }
}

static void target_breaks(CPUState *cpu, struct break_set *breaks)
{
    for (unsigned number = 0; number < POINTS; number++) {
        uint64_t address;
        if (break_address(cpu->env_ptr, number, &address)) {
            breaks->at[breaks->count++] = address;
        }
    }
}
#define target_breaks target_breaks

static bool target_watches(CPUState *cpu)
{
    uint64_t start, size;
    bool watches = false;

    for (unsigned number = 0; number < POINTS; number++) {
        watches |= watch_range(cpu->env_ptr, number, &start, &size);
    }
    return watches;
}
#define target_watches target_watches

/* Emits the call at a breakpoint. False: the instruction must be the first of a block. */
static bool ask_for_own_break(DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    return ask_for_break(cpu->uc->tcg_ctx, machine, db, (void *)(uintptr_t)meet_break);
}
