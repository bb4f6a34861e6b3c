/*
 * Operations that Unicorn lacks or does wrongly on 64-bit SPARC (docs/unicorn.md, "SPARC"), and the table of the CPU's fields
 * for snapshots. Part of loop.c.
 *
 * At every exception Unicorn overwrites the pc by npc before it makes the interrupt callback. It calls `stop_interrupt`
 * first, while both are right. So `tell_of_exception` makes the callback there, and Unicorn sees no exception. Unicorn
 * itself never enters the guest's exception handler; `deliver` makes it do so.
 */

/* Sets the size of a saved state, which is 0 otherwise. */
static void target_make_ready(struct uc_struct *uc)
{
    uc->cpu_context_size = offsetof(CPUSPARCState, irq_manager);
}

static bool tell_of_exception(struct uc_struct *uc, int exception)
{
    if (exception >= 0 && exception < EXCP_INTERRUPT) {
        struct hook *hook = uc->hook[UC_HOOK_INTR_IDX].head->data;

        /* An access that the guest's own TLB refuses is an exception of the guest, and does not end the run. */
        uc->invalid_error = UC_ERR_OK;
        uc->cpu->exception_index = -1;
        ((uc_cb_hookintr_t)hook->callback)(uc, (uint32_t)exception, hook->user_data);
    }
    return false;
}

/* Initializes a new core to the state after a reset: privileged, all windows free. */
static void prepare(CPUState *cpu)
{
    CPUSPARCState *env = cpu->env_ptr;

    cpu->uc->stop_interrupt = tell_of_exception;
    env->pstate = PS_PRIV | PS_PEF;
    env->tl = 0;
    /* At reset Unicorn leaves an invalid value here. */
    env->cc_op = CC_OP_FLAGS;
    env->cansave = env->nwindows - 2;
    env->cleanwin = env->nwindows - 1;
}

/* Enters the handler of an exception, if a trap level is left. */
static bool deliver(CPUState *cpu, uint32_t exception, uint64_t pc, uint64_t npc)
{
    CPUSPARCState *env = cpu->env_ptr;
    uint32_t can_save, traps_little = env->pstate & PS_TLE;

    if (env->tl >= env->maxtl) {
        return false;
    }
    env->pc = pc;
    env->npc = npc;
    /*
     * A spill enters the window that is CANSAVE + 2 windows on. Unicorn subtracts that sum and wraps once, so the sum
     * must be less than the number of windows: it is reduced while Unicorn looks at it.
     */
    can_save = env->cansave;
    env->cansave = (can_save + 2) % env->nwindows - 2;
    cpu->exception_index = (int32_t)exception;
    CPU_GET_CLASS(cpu)->do_interrupt(cpu);
    env->cansave = can_save;
    /* A trap keeps PSTATE.TLE and copies it to CLE. Unicorn clears both. */
    if (traps_little) {
        env->pstate |= PS_TLE | PS_CLE;
    }
    return true;
}

static uint64_t get_codes(CPUState *cpu)
{
    return cpu_get_ccr(cpu->env_ptr);
}

static void set_codes(CPUState *cpu, uint64_t value)
{
    cpu_put_ccr(cpu->env_ptr, value);
}

static void set_window(CPUState *cpu, uint32_t number)
{
    cpu_put_cwp64(cpu->env_ptr, (int)(number % ((CPUSPARCState *)cpu->env_ptr)->nwindows));
}

/* Restores the state that a trap has saved, as a return from it does: condition codes, ASI, PSTATE, CWP. */
static void set_state(CPUState *cpu, uint64_t state)
{
    CPUSPARCState *env = cpu->env_ptr;

    cpu_put_ccr(env, state >> 32 & 0xff);
    env->asi = state >> 24 & 0xff;
    cpu_change_pstate(env, state >> 8 & 0xf3f);
    cpu_put_cwp64(env, (state & 0xff) % env->nwindows);
}

/* Writes an entry of the instruction TLB. */
static void set_fetch_entry(CPUState *cpu, uint32_t number, uint64_t tag, uint64_t entry)
{
    CPUSPARCState *env = cpu->env_ptr;

    env->itlb[number & 63].tag = tag;
    env->itlb[number & 63].tte = entry;
}

/* Translates an address with the data TLB and the kernel's rights; also returns whether it is writable. */
static bool find_page(CPUState *cpu, uint64_t address, uint64_t *physical, bool *writable)
{
    CPUSPARCState *env = cpu->env_ptr;
    uint64_t context = env->tl > 0 ? 0 : env->dmmu.mmu_primary_context & MMU_CONTEXT_MASK;

    if (!(env->lsu & DMMU_E)) {
        *physical = address & 0x1ffffffffffULL;
        *writable = true;
        return true;
    }
    for (int number = 0; number < 64; number++) {
        const SparcTLBEntry *entry = &env->dtlb[number];
        uint64_t mask = 0 - (8192ULL << 3 * TTE_PGSIZE(entry->tte));

        if (TTE_IS_VALID(entry->tte) && (TTE_IS_GLOBAL(entry->tte) || tlb_compare_context(entry, context)) &&
            ((address ^ entry->tag) & mask) == 0) {
            *physical = ((entry->tte & mask) | (address & ~mask)) & 0x1ffffffffffULL;
            *writable = TTE_IS_W_OK(entry->tte);
            return true;
        }
    }
    return false;
}

/* Computes the condition codes, which the core does lazily; needed before states are compared. */
static void settle(CPUState *cpu)
{
    CPUSPARCState *env = cpu->env_ptr;

    if (env->cc_op != CC_OP_FLAGS && env->cc_op != CC_OP_DYNAMIC) {
        cpu_get_psr(env);
    }
    env->cc_op = CC_OP_FLAGS;
    env->regwptr = env->regbase + env->cwp * 16;
}

/* A part of the state that a CPU may change after its reset: `count` consecutive numbers of `bytes` bytes each. */
struct sparc_field {
    const char *name;
    size_t at, bytes, count;
    /* Whether it is internal to the core: scratch, or derived from other fields. */
    bool is_own;
};
#define SIZE_OF(member) sizeof(((CPUSPARCState *)0)->member)
#define ONE(name, member) {name, offsetof(CPUSPARCState, member), SIZE_OF(member), 1, false}
#define MANY(name, member) {name, offsetof(CPUSPARCState, member), SIZE_OF(member[0]), SIZE_OF(member) / SIZE_OF(member[0]), false}
#define WORDS(name, member) {name, offsetof(CPUSPARCState, member), 8, SIZE_OF(member) / 8, false}
#define OWN(member) {"", offsetof(CPUSPARCState, member), SIZE_OF(member), 1, true}

static const struct sparc_field sparc_fields[] = {
    MANY("g", gregs),
    OWN(regwptr),
    ONE("pc", pc),
    ONE("npc", npc),
    ONE("y", y),
    OWN(cc_src),
    OWN(cc_src2),
    OWN(cc_dst),
    OWN(cc_op),
    OWN(cond),
    ONE("psr", psr),
    ONE("fsr", fsr),
    WORDS("f", fpr),
    ONE("cwp", cwp),
    ONE("tba", tbr),
    ONE("pil", psrpil),
    ONE("pil.in", pil_in),
    MANY("window", regbase),
    ONE("lsu", lsu),
    WORDS("immu", immu),
    WORDS("dmmu", dmmu),
    WORDS("itlb", itlb),
    WORDS("dtlb", dtlb),
    OWN(qt0),
    OWN(qt1),
    OWN(fp_status),
    WORDS("trap", ts),
    ONE("xcc", xcc),
    ONE("asi", asi),
    ONE("pstate", pstate),
    ONE("tl", tl),
    ONE("cansave", cansave),
    ONE("canrestore", canrestore),
    ONE("otherwin", otherwin),
    ONE("wstate", wstate),
    ONE("cleanwin", cleanwin),
    MANY("ag", agregs),
    MANY("bg", bgregs),
    MANY("ig", igregs),
    MANY("mg", mgregs),
    ONE("fprs", fprs),
    ONE("tick.compare", tick_cmpr),
    ONE("stick.compare", stick_cmpr),
    ONE("gsr", gsr),
    ONE("ivec.status", ivec_status),
    MANY("ivec.data", ivec_data),
    ONE("softint", softint),
};

/* For unicorn/cpus/sparc64.rs: functions, and the fields of the state. */
const struct {
    void (*prepare)(CPUState *cpu);
    bool (*deliver)(CPUState *cpu, uint32_t exception, uint64_t pc, uint64_t npc);
    uint64_t (*get_codes)(CPUState *cpu);
    void (*set_codes)(CPUState *cpu, uint64_t value);
    void (*set_window)(CPUState *cpu, uint32_t number);
    void (*set_state)(CPUState *cpu, uint64_t state);
    void (*set_fetch_entry)(CPUState *cpu, uint32_t number, uint64_t tag, uint64_t entry);
    bool (*find_page)(CPUState *cpu, uint64_t address, uint64_t *physical, bool *writable);
    void (*settle)(CPUState *cpu);
    const struct sparc_field *fields;
    size_t field_count;
} TRAPLINE_OWN = {
    prepare, deliver, get_codes, set_codes, set_window, set_state, set_fetch_entry, find_page, settle, sparc_fields,
    sizeof(sparc_fields) / sizeof(sparc_fields[0]),
};
#define target_make_ready target_make_ready
