/*
 * Exceptions and state of RISC-V (docs/unicorn.md, "RISC-V"). Part of hooks.h, for both widths.
 *
 * Unicorn adds 4 to the pc at every exception and ends the run at a breakpoint, but it calls `stop_interrupt` while the pc
 * is right. So the callback is made from there, and Unicorn sees no exception. `deliver` enters the guest's handler, which
 * Unicorn never does for exceptions.
 */

/* The fields of mstatus that a supervisor may write. */
enum { STATUS_WRITTEN = MSTATUS_SIE | MSTATUS_SPIE | MSTATUS_SPP | MSTATUS_FS | MSTATUS_SUM | MSTATUS_MXR };

enum { OPCODE = 0x7f, ATOMIC = 0x2f, LOAD_RESERVED = 2, HALF_BYTES = 2 };

static bool code_half(CPURISCVState *env, target_ulong pc, uint16_t *half)
{
    const void *host = tlb_vaddr_to_host(env, pc, MMU_INST_FETCH, cpu_mmu_index(env, true));

    if (host == NULL) {
        return false;
    }
    *half = lduw_le_p(host);
    return true;
}

/* Whether the instruction at the pc is an atomic one that writes. */
static bool is_atomic_write(CPURISCVState *env)
{
    uint16_t low, high;

    return code_half(env, env->pc, &low) && (low & OPCODE) == ATOMIC && code_half(env, env->pc + HALF_BYTES, &high)
           && high >> 11 != LOAD_RESERVED;
}

/* Unicorn performs an atomic instruction as a load and a store, so the load's exception becomes that of a store. */
static uint32_t true_cause(CPURISCVState *env, uint32_t cause)
{
    switch (cause) {
    case RISCV_EXCP_LOAD_ADDR_MIS:
        return is_atomic_write(env) ? RISCV_EXCP_STORE_AMO_ADDR_MIS : cause;
    case RISCV_EXCP_LOAD_ACCESS_FAULT:
        return is_atomic_write(env) ? RISCV_EXCP_STORE_AMO_ACCESS_FAULT : cause;
    case RISCV_EXCP_LOAD_PAGE_FAULT:
        return is_atomic_write(env) ? RISCV_EXCP_STORE_PAGE_FAULT : cause;
    default:
        return cause;
    }
}

static void report(CPUState *cpu, uint32_t cause)
{
    struct uc_struct *uc = cpu->uc;
    struct hook *hook = uc->hook[UC_HOOK_INTR_IDX].head->data;

    ((uc_cb_hookintr_t)hook->callback)(uc, true_cause(cpu->env_ptr, cause), hook->user_data);
}

enum { CAUSES = 64 };

static bool report_instead(struct uc_struct *uc, int exception)
{
    if (exception >= 0 && exception < CAUSES) {
        /* An access that the guest's own tables refuse is an exception of the guest, and does not end the run. */
        uc->invalid_error = UC_ERR_OK;
        uc->cpu->exception_index = -1;
        report(uc->cpu, (uint32_t)exception);
    }
    return false;
}

/* Stands in for `helper_raise_exception` of op_helper.c, 2.1.5: system calls, breakpoints, invalid instructions. */
static void except(CPURISCVState *env, uint32_t cause)
{
    report(env_cpu(env), cause);
}

/* Makes Unicorn's saved state longer, so that it includes the floating-point flags, which a program can read; and
   installs `report_instead`. */
static void target_make_ready(struct uc_struct *uc)
{
    uc->cpu_context_size = offsetof(CPURISCVState, timer);
    uc->stop_interrupt = report_instead;
}
#define target_make_ready target_make_ready

/* The largest number of pages in `target_memory`. */
enum { MOST_NOTED = 64 };

struct target_memory {
    /* The pages whose TLB entries supervisor mode has filled while SUM let it access user pages. `many` counts all of them;
       only the first MOST_NOTED are stored. */
    unsigned many;
    target_ulong pages[MOST_NOTED];
    /* Whether a large page of the lower half of addresses, or of the upper one, may be in the TLB. */
    bool has_large[2];
};
#define target_memory target_memory

static unsigned half_of(target_ulong address)
{
    return address >> (TARGET_LONG_BITS - 1);
}

/*
 * Records that the TLB may have entries of a large page. The TLB has an entry for each 4 KiB of it, so flushing one page
 * would leave the others: a fence of an address in this half then flushes everything.
 */
static void note_large_page(CPUState *cpu, target_ulong address)
{
    struct target_memory *noted = target_memory_of(cpu->uc);

    if (noted) {
        noted->has_large[half_of(address)] = true;
    }
}

static void target_before_fill(CPUState *cpu, target_ulong address, int mode)
{
    CPURISCVState *env = cpu->env_ptr;
    struct target_memory *noted = target_memory_of(cpu->uc);

    if (noted && mode == PRV_S && env->mstatus & MSTATUS_SUM) {
        if (noted->many < MOST_NOTED) {
            noted->pages[noted->many] = address & TARGET_PAGE_MASK;
        }
        noted->many++;
    }
}
#define target_before_fill target_before_fill

static bool is_noted(const struct target_memory *noted, target_ulong page)
{
    for (unsigned number = 0; number < noted->many; number++) {
        if (noted->pages[number] == page) {
            return true;
        }
    }
    return false;
}

/*
 * Called when SUM was cleared: supervisor mode may no longer access user pages, so these leave its TLB. Unicorn would
 * flush the whole TLB of the mode at each change of SUM, and Linux changes it twice for every access to user memory.
 */
static void forget_noted(CPURISCVState *env)
{
    CPUState *cpu = env_cpu(env);
    struct target_memory *noted = target_memory_of(cpu->uc);
    CPUTLBDesc *pages = &env_tlb(env)->d[PRV_S];

    if (noted == NULL || noted->many > MOST_NOTED) {
        count_again(cpu);
        tlb_flush_by_mmuidx(cpu, 1 << PRV_S);
    } else if (noted->many > 0) {
        for (unsigned number = 0; number < noted->many; number++) {
            CPUTLBEntry *entry = tlb_entry(env, PRV_S, noted->pages[number]);
            if (!is_empty(entry) && page_of(cpu->uc, entry) == noted->pages[number]) {
                memset(entry, -1, sizeof(*entry));
                pages->n_used_entries--;
            }
        }
        for (size_t number = 0; number < CPU_VTLB_SIZE; number++) {
            CPUTLBEntry *entry = &pages->vtable[number];
            if (!is_empty(entry) && is_noted(noted, page_of(cpu->uc, entry))) {
                memset(entry, -1, sizeof(*entry));
            }
        }
    }
    if (noted) {
        noted->many = 0;
    }
}

/* Returns sstatus. Unicorn does not always keep SD, which says that FS is dirty. */
static target_ulong get_status(const CPURISCVState *env)
{
    target_ulong value = env->mstatus & STATUS_WRITTEN;

    return (value & MSTATUS_FS) == MSTATUS_FS ? value | MSTATUS_SD : value;
}

/* Sets sstatus. */
static void set_status(CPURISCVState *env, target_ulong value)
{
    target_ulong before = env->mstatus;

    env->mstatus = value & STATUS_WRITTEN;
    env->mstatus = get_status(env);
    if ((before ^ value) & MSTATUS_MXR) {
        count_again(env_cpu(env));
        tlb_flush(env_cpu(env));
    }
    if (before & MSTATUS_SUM && !(value & MSTATUS_SUM)) {
        forget_noted(env);
    }
}

/* Initializes a new core: supervisor mode, everything that can be delegated goes to it. As behind OpenSBI, programs may read
   the time and the counters of cycles and instructions until the kernel says otherwise: clock_gettime of the vDSO needs it. */
static void prepare(CPUState *cpu, uint32_t number)
{
    CPURISCVState *env = cpu->env_ptr;

    riscv_cpu_set_mode(env, PRV_S);
    env->mhartid = number;
    env->mstatus = 0;
    env->mideleg = MIP_SSIP | MIP_STIP | MIP_SEIP;
    env->medeleg = 0xb1ff;
    env->mcounteren = 7;
    env->scounteren = 7;
}

/* Enters the guest's handler. `value` is stval. */
static void deliver(CPUState *cpu, uint32_t cause, bool is_interrupt, uint64_t pc, uint64_t value)
{
    CPURISCVState *env = cpu->env_ptr;
    target_ulong status = env->mstatus;
    bool vectored = env->stvec & 1;

    status = set_field(status, MSTATUS_SPIE, get_field(status, MSTATUS_SIE));
    status = set_field(status, MSTATUS_SIE, 0);
    env->mstatus = set_field(status, MSTATUS_SPP, env->priv);
    env->scause = cause | (is_interrupt ? (target_ulong)1 << (TARGET_LONG_BITS - 1) : 0);
    env->sepc = (target_ulong)pc;
    env->sbadaddr = (target_ulong)value;
    env->pc = (env->stvec & ~(target_ulong)3) + (is_interrupt && vectored ? cause * 4 : 0);
    riscv_cpu_set_mode(env, PRV_S);
}

/* Flushes the TLB of the running hart. */
static void fence(CPUState *cpu)
{
    struct target_memory *noted = target_memory_of(cpu->uc);

    count_again(cpu);
    tlb_flush(cpu);
    if (noted) {
        noted->has_large[0] = noted->has_large[1] = false;
    }
}

static uint64_t read_status(CPUState *cpu)
{
    return get_status(cpu->env_ptr);
}

static void write_status(CPUState *cpu, uint64_t value)
{
    set_status(cpu->env_ptr, (target_ulong)value);
}

/* A part of the state that a CPU may change after its reset: `count` consecutive numbers of `bytes` bytes each. */
struct riscv_field {
    const char *name;
    size_t at, bytes, count;
    /* Whether it is internal to the core: scratch, or the last exception. */
    bool is_own;
};
#define SIZE_OF(member) sizeof(((CPURISCVState *)0)->member)
#define ONE(name, member) {name, offsetof(CPURISCVState, member), SIZE_OF(member), 1, false}
#define MANY(name, member) {name, offsetof(CPURISCVState, member), SIZE_OF(member[0]), SIZE_OF(member) / SIZE_OF(member[0]), false}
#define OWN(member) {"", offsetof(CPURISCVState, member), SIZE_OF(member), 1, true}

static const struct riscv_field riscv_fields[] = {
    MANY("x", gpr),
    MANY("f", fpr),
    ONE("pc", pc),
    ONE("reserved.address", load_res),
    ONE("reserved.value", load_val),
    ONE("frm", frm),
    ONE("fflags", fp_status.float_exception_flags),
    ONE("mode", priv),
    ONE("number", mhartid),
    ONE("status", mstatus),
    ONE("sip", mip),
    ONE("sie", mie),
    ONE("mideleg", mideleg),
    ONE("medeleg", medeleg),
    ONE("mcounteren", mcounteren),
    ONE("satp", satp),
    ONE("stval", sbadaddr),
    ONE("stvec", stvec),
    ONE("sepc", sepc),
    ONE("scause", scause),
    ONE("scounteren", scounteren),
    ONE("sscratch", sscratch),
    OWN(badaddr),
    OWN(guest_phys_fault_addr),
    OWN(fp_status.float_rounding_mode),
};

/* For unicorn/cpus/riscv.rs: functions, and the fields of the state. */
const struct {
    void (*prepare)(CPUState *cpu, uint32_t number);
    void (*deliver)(CPUState *cpu, uint32_t cause, bool is_interrupt, uint64_t pc, uint64_t value);
    uint64_t (*read_status)(CPUState *cpu);
    void (*write_status)(CPUState *cpu, uint64_t value);
    void (*fence)(CPUState *cpu);
    const struct riscv_field *fields;
    size_t field_count;
} TRAPLINE_OWN = {
    prepare, deliver, read_status, write_status, fence, riscv_fields, sizeof(riscv_fields) / sizeof(riscv_fields[0]),
};
