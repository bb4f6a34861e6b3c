/*
 * x86 of 32 and 64 bits. Part of loop.c; defaults.h says what each hook is for.
 */
#include "global_pages.h"
#include "segments.h"
#include "prefixes.h"
#include "ports.h"
#include "locked.h"
#include "debug_registers.h"
#include "walk.h"
#include "rows.h"

/* The pc's offset in the state. With it jumps.h finds jumps to constant addresses and caches their targets. */
#define TARGET_PC_AT offsetof(CPUX86State, eip)

/* The next two functions stand in for `helper_rdtsc` and `helper_rdtscp` of misc_helper.c, 2.1.5, and call them. Called from
   here, the helper does not restore the CPU's state by its return address: that takes long and is not needed, because the
   translator has written the state. */
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

/* Stands in for `helper_syscall` of seg_helper.c, 2.1.5, which does not check EFER.SCE. */
static void call_system(CPUX86State *env, int length)
{
    if (!(env->efer & MSR_EFER_SCE)) {
        AS_BEFORE(env);
        raise_exception_err(env, EXCP06_ILLOP, 0);
    }
    HELPER(syscall)(env, length);
    HERE;
}

/*
 * Stands in for `helper_sysenter` of seg_helper.c, 2.1.5, which leaves the instruction to a callback. Selector, stack pointer
 * and target come from three MSRs. Code and stack segments are flat, and the stack's selector is the code's plus 8. The CPU
 * saves no return address.
 */
static void enter_system(CPUX86State *env, int length)
{
    uint32_t code = env->sysenter_cs & 0xfffc;
    uint32_t flat = DESC_G_MASK | DESC_P_MASK | DESC_S_MASK | DESC_A_MASK;
    bool is_long = env->hflags & HF_LMA_MASK;

    AS_BEFORE(env);
    if (code == 0) {
        raise_exception_err(env, EXCP0D_GPF, 0);
    }
    env->eflags &= ~(VM_MASK | IF_MASK | RF_MASK);
    cpu_x86_load_seg_cache(env, R_CS, code, 0, UINT32_MAX,
                           flat | DESC_CS_MASK | DESC_R_MASK | (is_long ? DESC_L_MASK : DESC_B_MASK));
    cpu_x86_load_seg_cache(env, R_SS, code + 8, 0, UINT32_MAX, flat | DESC_B_MASK | DESC_W_MASK);
    env->regs[R_ESP] = env->sysenter_esp;
    env->eip = env->sysenter_eip;
    HERE;
}

/*
 * Stands in for `helper_ltr` of Unicorn's seg_helper.c, 2.1.5. That accepts a null
 * selector, and the next call through a gate would end the process. A CPU refuses the selector.
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
 * Stands in for `helper_wrmsr` of misc_helper.c, 2.1.5. CPUID does not offer virtual machines (SVM), but Unicorn has
 * them, and they load the task register and others with any value. So the bit that enables them is reserved.
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

/* Stands in for `helper_raise_interrupt` of excp_helper.c, 2.1.5: INT n and INT3. */
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

/* Stands in for `helper_pause` of misc_helper.c, 2.1.5, which leaves translated code by a long jump. */
static void pause_loop(CPUX86State *env, int length)
{
    struct trapline_machine *machine = machine_of(env->uc);

    env->eip += length;
    if (machine != NULL) {
        machine->pauses(machine);
    }
}

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(rdtsc), read_clock, false },
    { HELPER(rdtscp), read_clock_and_cpu, false },
    { HELPER(syscall), call_system, false },
    { HELPER(sysenter), enter_system, false },
    { HELPER(write_crN), write_control, false },
    { HELPER(invlpg), forget_page, false },
    { HELPER(load_seg), load_segment, false },
    { HELPER(iret_protected), return_from_interrupt, false },
    { HELPER(ltr), load_task, false },
    { HELPER(wrmsr), write_msr, false },
    { HELPER(raise_interrupt), interrupt, true },
    { HELPER(pause), pause_loop, true },
    { HELPER(get_dr), read_debug, false },
    { HELPER(set_dr), write_debug, false },
    { HELPER(single_step), step, false },
    { HELPER(debug), behind_instruction, true },
    { NULL, NULL, false },
};
#define target_instead target_instead

static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    if (!ask_for_breakpoint(cpu->uc->tcg_ctx, machine, db)) {
        return IN_NEXT_BLOCK;
    }
    if (refuse_lock(cpu->uc->tcg_ctx, machine, db, cpu)) {
        return BY_US;
    }
    ask_for_port(cpu->uc->tcg_ctx, machine, db, cpu);
    return BY_THE_LIBRARY;
}
#define target_translate target_translate

static void target_after_block(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
    stay(s);
}
#define target_after_block target_after_block
