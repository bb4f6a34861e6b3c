/*
 * Calls of helpers in translated code, and the functions that replace some helpers (docs/unicorn.md, "Our own start of
 * a block"). A part of loop.c.
 *
 * Helpers that make a callback first restore the CPU's state to the instruction, whose code they find by their return
 * address; but the translator has already written that state before it calls them. Called from the functions here,
 * their return address is not in translated code, so they restore nothing.
 *
 * Helpers that raise an exception end the block by a long jump to Unicorn's main loop, which makes the callback and
 * looks up the next block. The replacements make the callback themselves, and the code continues at the pc that the
 * callback has set.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "tcg/tcg.h"
#include "tcg/tcg-op.h"
#include "exec/exec-all.h"
#include "exec/helper-proto.h"
#ifdef TARGET_ARM
#include "internals.h"
#elif defined(TARGET_S390X)
#include "tcg_s390x.h"
#endif
#include <uc_priv.h>

#ifdef TARGET_PPC
/* The machine's random number for the instruction that is about to run. */
static __thread uint64_t drawn;
#endif

struct instead {
    void *helper;
    void *ours;
    bool raises;
};

#if defined(TARGET_X86_64) || defined(TARGET_ARM) || defined(TARGET_S390X)
static void tell(CPUState *cpu, uint32_t number)
{
    struct uc_struct *uc = cpu->uc;

    if (uc->stop_interrupt && uc->stop_interrupt(uc, number)) {
        struct hook *hook = uc->hook[UC_HOOK_INSN_INVALID_IDX].head->data;
        ((uc_cb_hookinsn_invalid_t)hook->callback)(uc, hook->user_data);
    } else {
        struct hook *hook = uc->hook[UC_HOOK_INTR_IDX].head->data;
        ((uc_cb_hookintr_t)hook->callback)(uc, number, hook->user_data);
    }
}
#endif

#if defined(TARGET_X86_64)
static void read_clock(CPUX86State *env)
{
    HELPER(rdtsc)(env);
    HERE;
}

static void read_clock_and_cpu(CPUX86State *env)
{
    HELPER(rdtscp)(env);
    HERE;
}

static void call_system(CPUX86State *env, int length)
{
    HELPER(syscall)(env, length);
    HERE;
}

/*
 * Replaces `helper_ltr` of Unicorn's seg_helper.c, 2.1.5. That accepts a null selector and leaves a task register
 * without a task, which would end the process at the next call through a gate. A CPU refuses the selector.
 */
static void load_task(CPUX86State *env, int selector)
{
    AS_BEFORE(env);
    if ((selector & 0xfffc) == 0) {
        raise_exception_err(env, EXCP0D_GPF, 0);
    }
    HELPER(ltr)(env, selector);
    HERE;
}

/*
 * Replaces `helper_wrmsr` of misc_helper.c. CPUID does not offer virtual machines (SVM), but Unicorn implements them,
 * and they load the task register and others without checks. So the bit that enables them is treated as reserved.
 */
static void write_msr(CPUX86State *env)
{
    AS_BEFORE(env);
    if ((uint32_t)env->regs[R_ECX] == MSR_EFER && env->regs[R_EAX] & MSR_EFER_SVME) {
        raise_exception_err(env, EXCP0D_GPF, 0);
    }
    HELPER(wrmsr)(env);
    HERE;
}

/* INT n and INT3. */
static void interrupt(CPUX86State *env, int number, int length)
{
    if (env->hflags & HF_GUEST_MASK) {
        HELPER(raise_interrupt)(env, number, length);
    }
    env->error_code = 0;
    env->exception_is_int = 1;
    env->eip += length;
    env->exception_next_eip = env->eip;
    tell(env_cpu(env), number);
}

static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { HELPER(rdtsc), read_clock },
    { HELPER(rdtscp), read_clock_and_cpu },
    { HELPER(syscall), call_system },
    { HELPER(write_crN), write_control },
    { HELPER(invlpg), forget_page },
    { HELPER(load_seg), load_segment },
    { HELPER(iret_protected), return_from_interrupt },
    { HELPER(ltr), load_task },
    { HELPER(wrmsr), write_msr },
    { HELPER(raise_interrupt), interrupt, true },
    { NULL },
};
#elif defined(TARGET_ARM)
/* SVC, HVC, SMC, undefined instructions and the like. */
static void except(CPUARMState *env, uint32_t number, uint32_t syndrome, uint32_t level)
{
    if (arm_hcr_el2_eff(env) & HCR_TGE) {
        HELPER(exception_with_syndrome)(env, number, syndrome, level);
    }
    env->exception.syndrome = syndrome;
    env->exception.target_el = level;
    tell(env_cpu(env), number);
}

/* BRK and BKPT. */
static void breakpoint(CPUARMState *env, uint32_t syndrome)
{
    int level = arm_debug_target_el(env), now = arm_current_el(env);

    env->exception.fsr = arm_debug_exception_fsr(env);
    env->exception.vaddress = 0;
    except(env, EXCP_BKPT, syndrome, level < now ? now : level);
}

static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { HELPER(exception_with_syndrome), except, true },
    { HELPER(exception_bkpt_insn), breakpoint, true },
    { NULL },
};
#elif defined(TARGET_MIPS)
/* See mips.h. */
static target_ulong read_count(CPUMIPSState *env);
static target_ulong read_user_count(CPUMIPSState *env);
static target_ulong read_random(CPUMIPSState *env);
static void write_count(CPUMIPSState *env, target_ulong value);
static void write_compare(CPUMIPSState *env, target_ulong value);
static void write_shadow_sets(CPUMIPSState *env, target_ulong value);

static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { HELPER(mfc0_count), read_count },
    { HELPER(rdhwr_cc), read_user_count },
    { HELPER(mfc0_random), read_random },
    { HELPER(mtc0_count), write_count },
    { HELPER(mtc0_compare), write_compare },
    { HELPER(mtc0_srsctl), write_shadow_sets },
    { NULL },
};
#elif defined(TARGET_PPC64)
/*
 * Unicorn has no clock for the helpers that read time: they follow a null pointer. The machine has already set the
 * value (`answer_before`). Messages to other threads write outside the state, and a partition number other than 0 ends
 * the process, so both are ignored.
 */
static target_ulong read_time(CPUPPCState *env)
{
    return env->spr[SPR_VTBL];
}

static target_ulong random_32(void)
{
    return (uint32_t)drawn;
}

static target_ulong random_64(void)
{
    return drawn;
}

static target_ulong read_far_away(CPUPPCState *env)
{
    return INT32_MAX;
}

static void ignore(CPUPPCState *env, target_ulong value)
{
}

/*
 * Replaces `helper_store_lpcr` of Unicorn's mmu-hash64.c, 2.1.5. UPRT without HR selects segment tables in memory,
 * which Unicorn does not implement: the first SLB miss would end the process. Without UPRT the miss is an exception of
 * the guest.
 */
static void write_lpcr(CPUPPCState *env, target_ulong value)
{
    HELPER(store_lpcr)(env, value & LPCR_HR ? value : value & ~(target_ulong)LPCR_UPRT);
}

static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { HELPER(darn32), random_32 },
    { HELPER(darn64), random_64 },
    { HELPER(load_purr), read_time },
    { HELPER(load_vtb), read_time },
    { HELPER(load_hdecr), read_far_away },
    { HELPER(store_purr), ignore },
    { HELPER(store_vtb), ignore },
    { HELPER(store_hdecr), ignore },
    { HELPER(store_tbu40), ignore },
    { HELPER(store_dpdes), ignore },
    { HELPER(store_lpcr), write_lpcr },
    { HELPER(store_lpidr), ignore },
    { HELPER(book3s_msgsnd), ignore },
    { HELPER(book3s_msgsndp), ignore },
    { NULL },
};
#elif defined(TARGET_SPARC64)
/*
 * Outside of a trap there is nothing to return from, but Unicorn decrements the trap level below 0. And Unicorn takes
 * the window number as signed and selects a window that does not exist: a CPU uses its lowest bits.
 */
static void done(CPUSPARCState *env)
{
    if (env->tl == 0) {
        cpu_raise_exception_ra(env, TT_ILL_INSN, GETPC());
    }
    HELPER(done)(env);
}

static void retry(CPUSPARCState *env)
{
    if (env->tl == 0) {
        cpu_raise_exception_ra(env, TT_ILL_INSN, GETPC());
    }
    HELPER(retry)(env);
}

static void write_window(CPUSPARCState *env, target_ulong number)
{
    HELPER(wrcwp)(env, number % env->nwindows);
}

static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { HELPER(done), done },
    { HELPER(retry), retry },
    { HELPER(wrcwp), write_window },
    { NULL },
};
#elif defined(TARGET_PPC)
/*
 * Doze mode, requested by a bit of MSR, ends the run in a way after which Unicorn only restarts it, forever. So it ends
 * the run as other instructions that wait do.
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

static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { HELPER(store_msr), set_machine_state },
    { NULL },
};
#elif defined(TARGET_S390X)
/* System calls, program interruptions that are known at translation, and instructions left to the machine (loop.c). */
static void except(CPUS390XState *env, uint32_t number)
{
    tell(env_cpu(env), number);
}

/*
 * Replaces `helper_csst` of Unicorn's mem_helper.c, 2.1.5, which does not check that the number of a register pair is
 * even, and so uses a register beyond the last.
 */
static uint32_t compare_swap_store(CPUS390XState *env, uint32_t number, uint64_t first, uint64_t second)
{
    cpu_restore_state(env_cpu(env), GETPC(), false);
    if ((env->regs[0] & 0xff) == 2 && number & 1) {
        tcg_s390_program_interrupt(env, PGM_SPECIFICATION, 0);
    }
    return HELPER(csst)(env, number, first, second);
}

/* PER events are raised before the next block instead (loop.c). */
static void not_yet(CPUS390XState *env)
{
}

static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { HELPER(exception), except, true },
    { HELPER(per_check_exception), not_yet },
    { HELPER(csst), compare_swap_store },
    { NULL },
};
#else
static const struct instead INSTEAD[] = {
    { HELPER(lookup_tb_ptr), look_up },
    { NULL },
};
#endif

/* Inserts a jump to the block at the CPU's current pc. */
static void go_on(TCGContext *s, TCGOp *op)
{
    TCGOp *last = tcg_last_op(s);
    TCGOp *call;

    tcg_gen_lookup_and_goto_ptr(s);
    call = QTAILQ_NEXT(last, link);
    while (call != NULL && call->opc != INDEX_op_call) {
        call = QTAILQ_NEXT(call, link);
    }
    if (call != NULL) {
        call->args[TCGOP_CALLO(call) + TCGOP_CALLI(call)] = (uintptr_t)look_up_unless_told;
    }
    if (op != last) {
        move_behind(s, op, last);
    }
}

static void call_ours(TCGContext *s, struct trapline_machine *machine, uint64_t cs_base)
{
    TCGOp *op, *next;

    QTAILQ_FOREACH_SAFE(op, &s->ops, link, next) {
        TCGArg *function;
        if (op->opc != INDEX_op_call) {
            continue;
        }
        function = &op->args[TCGOP_CALLO(op) + TCGOP_CALLI(op)];
        for (const struct instead *row = INSTEAD; row->helper != NULL; row++) {
            if (*function == (uintptr_t)row->helper) {
                *function = (uintptr_t)row->ours;
                if (row->raises) {
                    /* The flags follow the function. */
                    function[1] &= ~(TCGArg)TCG_CALL_NO_RETURN;
                    go_on(s, op);
                } else if (row->ours == (void *)look_up) {
                    remember(s, machine, op, cs_base);
                }
                break;
            }
        }
    }
}

#if defined(TARGET_X86_64) || defined(TARGET_SPARC64)
/*
 * Where Unicorn's translator does not chain two blocks, it leaves translated code, so that the main loop can take
 * interrupts and look up the next block. The machine takes interrupts at the start of a block, so the next block is
 * looked up here instead. On MIPS this is not faster.
 */
static void stay(TCGContext *s)
{
    TCGOp *op, *next;

    QTAILQ_FOREACH_SAFE(op, &s->ops, link, next) {
        if (op->opc == INDEX_op_exit_tb && op->args[0] == 0) {
            go_on(s, op);
            tcg_op_remove(s, op);
        }
    }
}
#else
static void stay(TCGContext *s)
{
}
#endif

#ifdef TARGET_AARCH64
/*
 * Each MRS and MSR makes a callback first, for any register. If the machine does not emulate the register, the result
 * of the callback is known: the call is replaced by the constant, and the compiler drops the test of it.
 */
static void ask_less(TCGContext *s, struct trapline_machine *machine)
{
    TCGOp *op, *before;

    QTAILQ_FOREACH(op, &s->ops, link) {
        if (op->opc != INDEX_op_call || op->args[TCGOP_CALLO(op) + TCGOP_CALLI(op)] != (uintptr_t)HELPER(uc_hooksys64)) {
            continue;
        }
        /* Its second argument is the instruction, loaded shortly before. */
        before = op;
        do {
            before = QTAILQ_PREV(before, link);
        } while (before && !(before->opc == INDEX_op_movi_i32 && before->args[0] == op->args[TCGOP_CALLO(op) + 1]));
        if (before && !machine->answers(machine, (uint32_t)before->args[1] >> 5 & 0xffff)) {
            op->opc = INDEX_op_movi_i32;
            op->args[1] = 0;
        }
    }
}
#endif
