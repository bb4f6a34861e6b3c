/*
 * 32-bit programs on a 64-bit kernel (docs/unicorn.md, "32-bit programs on AArch64"). Part of hooks.h.
 */
#include "internals.h"
#include "narrow_state.h"

/* The bits of CPSR that Unicorn keeps in fields of their own, both for 32-bit and for 64-bit code. */
#define ALWAYS_ELSEWHERE (CPSR_NZCV | CPSR_AIF)

/* Puts the state that the machine has seen, and may have changed, back into the fields of 32-bit code. Called before a run. */
static void take_narrow(CPUARMState *env)
{
    uint32_t status = pstate_read(env);
    /* A debugger writes the stack pointer by either of its names. */
    uint64_t stack = env->xregs[31] != env->regs[13] ? env->xregs[31] : env->xregs[13];

    for (unsigned number = 0; number < 15; number++) {
        env->regs[number] = env->xregs[number];
    }
    env->regs[13] = stack;
    env->regs[15] = env->pc & (status & CPSR_T ? ~1u : ~3u);
    env->aarch64 = 0;
    env->btype = 0;
    env->QF = (status & CPSR_Q) != 0;
    env->GE = status >> 16 & 15;
    env->thumb = (status & CPSR_T) != 0;
    env->condexec_bits = (status >> 25 & 3) | (status >> 8 & 0xfc);
    env->daif = status & CPSR_AIF;
    env->uncached_cpsr = status & ~CACHED_CPSR_BITS;
    env->pstate = status & ~ALWAYS_ELSEWHERE;
    arm_rebuild_hflags(env);
}

/* Called before each run. */
static void target_begin(CPUState *cpu)
{
    CPUARMState *env = cpu->env_ptr;

    if (env->pstate & PSTATE_nRW) {
        take_narrow(env);
    }
}
#define target_begin target_begin

/* Called before the machine reads the state in the callback of an exception. */
static void target_show(CPUState *cpu)
{
    CPUARMState *env = cpu->env_ptr;

    if (is_narrow(env)) {
        show_narrow(env);
    }
}
#define target_show target_show

static void target_before_callback(TCGContext *s, const TranslationBlock *tb)
{
    TCGTemp *state = tcgv_ptr_temp(s, s->cpu_env);

    if (!FIELD_EX32(tb->flags, TBFLAG_ANY, AARCH64_STATE)) {
        know(s, show_narrow, "show_narrow", 0, dh_sizemask(void, 0) | dh_sizemask(env, 1));
        tcg_gen_callN(s, show_narrow, NULL, 1, &state);
    }
}
#define target_before_callback target_before_callback

/*
 * Stands in for `helper_exception_return` of helper-a64.c, 2.1.5, and calls it. A return to 32-bit code leaves the old PSTATE in
 * place, from which the machine reads the privilege, and PSTATE.D, whose bit is E in 32-bit state. It also loses PSTATE.SS.
 */
static void return_from_exception(CPUARMState *env, uint64_t pc)
{
    uint32_t status;
    bool is_debugged;

    HELPER(exception_return)(env, pc);
    if (likely(!is_narrow(env))) {
        return;
    }
    /* Debug exceptions were enabled before the return. */
    is_debugged = extract64(env->cp15.mdscr_el1, 13, 1) && !(env->daif & PSTATE_D);
    status = env->banked_spsr[aarch64_banked_spsr_index(1)];
    env->pstate = status & PSTATE_SS && !is_debugged && arm_singlestep_active(env) ? PSTATE_SS : 0;
    env->uncached_cpsr = (env->uncached_cpsr & ~PSTATE_SS) | env->pstate;
    env->daif &= CPSR_AIF;
    env->btype = 0;
    show_narrow(env);
}

/* Stands in for `helper_wfi` of op_helper.c, 2.1.5, and calls it. The run ends there. */
static void wait_for_interrupt(CPUARMState *env, uint32_t length)
{
    target_show(env_cpu(env));
    HELPER(wfi)(env, length);
    HERE;
}

/* Stands in for `helper_setend` of op_helper.c, 2.1.5, which ignores SCTLR_EL1.SED. */
static void set_endianness(CPUARMState *env)
{
    enum { SETEND_DISABLED = 8 };

    if (arm_current_el(env) == 0 && extract64(env->cp15.sctlr_el[1], SETEND_DISABLED, 1)) {
        raise_exception_ra(env, EXCP_UDEF, syn_uncategorized(), exception_target_el(env), GETPC());
    }
    HELPER(setend)(env);
    HERE;
}

/* Whether the condition in an A32 instruction's highest bits is met. */
static bool is_met(CPUARMState *env, unsigned condition)
{
    bool negative = (int32_t)env->NF < 0, zero = env->ZF == 0, carry = env->CF, overflow = (int32_t)env->VF < 0, met = true;

    switch (condition >> 1) {
    case 0: met = zero; break;
    case 1: met = carry; break;
    case 2: met = negative; break;
    case 3: met = overflow; break;
    case 4: met = carry && !zero; break;
    case 5: met = negative == overflow; break;
    case 6: met = negative == overflow && !zero; break;
    }
    return condition >= 14 || met != (condition & 1);
}

/* Called in front of SWP and SWPB. */
static void refuse_swap(CPUARMState *env, uint64_t machine, uint64_t pc, uint64_t word)
{
    if (is_met(env, word >> 28)) {
        raise_exception_ra(env, EXCP_UDEF, syn_uncategorized(), exception_target_el(env), GETPC());
    }
    HERE;
}

/* Unicorn executes SWP and SWPB on CPUs without them (ID_ISAR0.Swap). */
static void look_for_swap(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, CPUState *cpu)
{
    uint32_t word;

    if (FIELD_EX32(db->tb->flags, TBFLAG_ANY, AARCH64_STATE) || FIELD_EX32(db->tb->flags, TBFLAG_AM32, THUMB)) {
        return;
    }
    word = cpu_ldl_code(cpu->env_ptr, db->pc_next);
    if ((word & 0x0fb00ff0) == 0x01000090 && word >> 28 != 15 && (ARM_CPU(cpu)->isar.id_isar0 & 15) == 0) {
        call_with_machine(s, refuse_swap, "refuse_swap", machine, db->pc_next, word);
    }
}

/* The generic timer's registers of 32-bit code, each with the number of the AArch64 register that it is. */
static const struct {
    uint32_t name;
    uint32_t number;
} timers[] = {
#define TIMER(crm, op2) (3 << 14 | 3 << 11 | 14 << 7 | (crm) << 3 | (op2))
    { ENCODE_CP_REG(15, 0, 0, 14, 0, 0, 0), TIMER(0, 0) },
    { ENCODE_CP_REG(15, 1, 0, 0, 14, 0, 0), TIMER(0, 1) },
    { ENCODE_CP_REG(15, 1, 0, 0, 14, 1, 0), TIMER(0, 2) },
    { ENCODE_CP_REG(15, 0, 0, 14, 2, 0, 0), TIMER(2, 0) },
    { ENCODE_CP_REG(15, 0, 0, 14, 2, 0, 1), TIMER(2, 1) },
    { ENCODE_CP_REG(15, 1, 0, 0, 14, 2, 0), TIMER(2, 2) },
    { ENCODE_CP_REG(15, 0, 0, 14, 3, 0, 0), TIMER(3, 0) },
    { ENCODE_CP_REG(15, 0, 0, 14, 3, 0, 1), TIMER(3, 1) },
    { ENCODE_CP_REG(15, 1, 0, 0, 14, 3, 0), TIMER(3, 2) },
#undef TIMER
};

/* The number of the register of AArch64. */
static uint32_t timer_of(const ARMCPRegInfo *ri)
{
    bool wide = ri->type & ARM_CP_64BIT;
    uint32_t name = ENCODE_CP_REG(15, wide, 0, wide ? 0 : ri->crn, ri->crm, ri->opc1, wide ? 0 : ri->opc2);

    for (unsigned row = 0; row < ARRAY_SIZE(timers); row++) {
        if (timers[row].name == name) {
            return timers[row].number;
        }
    }
    return 0;
}

/* Unicorn's timer runs by the host's clock. The machine answers, as for 64-bit code. */
static uint64_t read_timer(CPUARMState *env, const ARMCPRegInfo *ri)
{
    struct trapline_machine *machine = machine_of(env->uc);
    uint64_t value = 0;

    target_show(env_cpu(env));
    if (machine != NULL) {
        machine->register_in(machine, timer_of(ri), &value);
    }
    return value;
}

static void write_timer(CPUARMState *env, const ARMCPRegInfo *ri, uint64_t value)
{
    struct trapline_machine *machine = machine_of(env->uc);

    target_show(env_cpu(env));
    if (machine != NULL) {
        machine->register_out(machine, timer_of(ri), value);
    }
}

/* The barriers of ARMv6, which a kernel may disable for programs (SCTLR_EL1.CP15BEN). Unicorn ignores that. */
static CPAccessResult may_use_barrier(CPUARMState *env, const ARMCPRegInfo *ri, bool isread)
{
    enum { BARRIERS_ENABLED = 5 };

    return arm_current_el(env) != 0 || extract64(env->cp15.sctlr_el[1], BARRIERS_ENABLED, 1) ? CP_ACCESS_OK
                                                                                             : CP_ACCESS_TRAP_UNCATEGORIZED;
}

/* Corrects the library's table of registers for 32-bit code. */
static void correct_narrow_registers(struct uc_struct *uc)
{
    static const uint32_t barriers[] = {
        ENCODE_CP_REG(15, 0, 0, 7, 5, 0, 4), ENCODE_CP_REG(15, 0, 0, 7, 10, 0, 4), ENCODE_CP_REG(15, 0, 0, 7, 10, 0, 5),
    };
    GHashTable *known = ARM_CPU(uc->cpu)->cp_regs;

    for (unsigned secure = 0; secure < 2; secure++) {
        uint32_t state = secure ? 0 : 1u << CP_REG_NS_SHIFT;

        for (unsigned row = 0; row < ARRAY_SIZE(timers); row++) {
            ARMCPRegInfo *ri = (ARMCPRegInfo *)get_arm_cp_reginfo(known, timers[row].name | state);
            if (ri != NULL) {
                ri->readfn = read_timer;
                ri->writefn = write_timer;
            }
        }
        for (unsigned row = 0; row < ARRAY_SIZE(barriers); row++) {
            ARMCPRegInfo *ri = (ARMCPRegInfo *)get_arm_cp_reginfo(known, barriers[row] | state);
            if (ri != NULL) {
                ri->accessfn = may_use_barrier;
            }
        }
    }
}
