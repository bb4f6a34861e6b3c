/*
 * Exceptions that ARM instructions raise, reported without leaving translated code, and masks of exceptions. Part of hooks.h
 * of both widths.
 */
#include "internals.h"

/* Stands in for `helper_exception_with_syndrome` of op_helper.c, 2.1.5: SVC, HVC, SMC, undefined instructions. With HCR_EL2.TGE
   the exception has another target level, which Unicorn's own function computes. */
static void except(CPUARMState *env, uint32_t number, uint32_t syndrome, uint32_t level)
{
    if (arm_hcr_el2_eff(env) & HCR_TGE) {
        HELPER(exception_with_syndrome)(env, number, syndrome, level);
    }
    env->exception.syndrome = syndrome;
    env->exception.target_el = level;
    tell(env_cpu(env), number);
}

/* Stands in for `helper_exception_bkpt_insn` of op_helper.c, 2.1.5: BRK and BKPT. */
static void breakpoint(CPUARMState *env, uint32_t syndrome)
{
    int level = arm_debug_target_el(env), now = arm_current_el(env);

    env->exception.fsr = arm_debug_exception_fsr(env);
    env->exception.vaddress = 0;
    except(env, EXCP_BKPT, syndrome, level < now ? now : level);
}

#ifdef TARGET_AARCH64
/*
 * Stands in for `helper_yield` and `helper_wfe` of op_helper.c, 2.1.5, which leave translated code by a long jump. For
 * 32-bit ARM these instructions arrive as exceptions.
 */
static void pause_loop(CPUARMState *env)
{
    struct trapline_machine *machine = machine_of(env->uc);

    target_show(env_cpu(env));
    if (machine != NULL) {
        machine->pauses(machine);
    }
}

/*
 * Replaces `helper_msr_i_daifclear` of helper-a64.c, 2.1.5, which leaves the translator's flags as they were: a guest that
 * single-steps itself and unmasks debug exceptions was not stepped until the next exception.
 */
static void unmask(CPUARMState *env, uint32_t masks)
{
    if (arm_current_el(env) == 0 && !(arm_sctlr(env, 0) & SCTLR_UMA)) {
        raise_exception_ra(env, EXCP_UDEF, syn_aa64_sysregtrap(0, 7, 3, 4, masks, 0x1f, 0), exception_target_el(env), GETPC());
    }
    env->daif &= ~((uint64_t)masks << 6 & PSTATE_DAIF);
    arm_rebuild_hflags(env);
}
#endif

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(exception_with_syndrome), except, true },
    { HELPER(exception_bkpt_insn), breakpoint, true },
#ifdef TARGET_AARCH64
    { HELPER(yield), pause_loop, true },
    { HELPER(wfe), pause_loop, true },
    { HELPER(msr_i_daifclear), unmask, false },
    { HELPER(exception_return), return_from_exception, false },
    { HELPER(wfi), wait_for_interrupt, false },
    { HELPER(setend), set_endianness, false },
#endif
    { NULL, NULL, false },
};
#define target_instead target_instead
