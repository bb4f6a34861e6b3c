/*
 * Instructions that read and write CSRs (docs/unicorn.md, "RISC-V"). Part of hooks.h.
 *
 * The functions stand in for `helper_csrrw`, `helper_csrrs` and `helper_csrrc` of op_helper.c, 2.1.5. The translator writes
 * the pc before it calls them. They ask the machine for counters, which Unicorn would take from the host, and report
 * writes of pending interrupts to it.
 */

/* A CSR's number, as the machine and its board know it (cpu/riscv/state.rs). */
#define MACHINES(csr) (1u << 17 | (csr))
/* The two highest bits of the number of a CSR that cannot be written. */
#define IS_READ_ONLY(csr) ((csr) >> 10 == 3)
/* Counters and the upper halves of counters that programs may read, if scounteren says so. */
#define IS_COUNTER(csr) (((csr) & ~0x9fu) == CSR_CYCLE)
#define UPPER_HALF 0x80u

/* Raises the exception for an instruction that does not exist. The pc is its own. */
static void QEMU_NORETURN refuse(CPURISCVState *env)
{
    riscv_raise_exception(env, RISCV_EXCP_ILLEGAL_INST, 0);
}

/* Reads one of the first three counters: cycles, time, instructions. */
static target_ulong read_counter(CPURISCVState *env, uint32_t csr)
{
    struct trapline_machine *machine = machine_of(env->uc);
    uint64_t value = 0;

    if (machine) {
        machine->register_in(machine, MACHINES(csr & ~UPPER_HALF), &value);
    }
    return (target_ulong)(csr & UPPER_HALF ? value >> 32 : value);
}

/* Accesses sip. The board sets and clears all pending interrupts; of these bits the guest may write SSIP, its software
   interrupt. */
static target_ulong access_pending(CPURISCVState *env, target_ulong value, target_ulong mask)
{
    struct trapline_machine *machine = machine_of(env->uc);
    target_ulong before = env->mip & env->mideleg;

    if (mask & MIP_SSIP) {
        if (!machine || !machine->register_out(machine, MACHINES(CSR_SIP), value & MIP_SSIP)) {
            env->mip = (env->mip & ~(target_ulong)MIP_SSIP) | (value & MIP_SSIP);
        }
    }
    return before;
}

static target_ulong access_status(CPURISCVState *env, target_ulong value, target_ulong mask)
{
    target_ulong before = get_status(env);

    if (mask) {
        set_status(env, (before & ~mask) | (value & mask));
    }
    return before;
}

/*
 * Writes bits of satp and returns the value before. If it changes, all translations are dropped, once: Unicorn keeps them if
 * only the table or the mode changes, and a change of the mode has an effect at once. If the address space's number changes,
 * Unicorn would drop them itself, without correcting the TLB's counts. So it finds the new number there already.
 */
static target_ulong access_tables(CPURISCVState *env, target_ulong value, target_ulong mask)
{
    target_ulong before = env->satp, after = (before & ~mask) | (value & mask);
    int refused;

    env->satp = (before & ~(target_ulong)SATP_ASID) | (after & SATP_ASID);
    refused = riscv_csrrw(env, CSR_SATP, NULL, after, -1);
    if (refused < 0 || env->satp != after) {
        /* Unicorn does not write a mode that does not exist. */
        env->satp = before;
    }
    if (refused < 0) {
        refuse(env);
    }
    if (env->satp != before) {
        fence(env_cpu(env));
    }
    return before;
}

/* Returns a CSR's value, and replaces its bits in `mask` by those of `value`. `writes` says whether the instruction counts as
   a write, which a read-only CSR refuses even if the mask is 0. */
static target_ulong access_csr(CPURISCVState *env, uint32_t csr, target_ulong value, target_ulong mask, bool writes)
{
    target_ulong before = 0;
    bool has_upper_halves = TARGET_LONG_BITS == 32;

    if (writes && IS_READ_ONLY(csr)) {
        refuse(env);
    }
    if (IS_COUNTER(csr) && (has_upper_halves || !(csr & UPPER_HALF))) {
        if (env->priv == PRV_U && !(env->scounteren >> (csr & 31) & 1)) {
            refuse(env);
        }
        if ((csr & 31) < 3) {
            return read_counter(env, csr);
        }
    }
    if (env->priv >= PRV_S && csr == CSR_SSTATUS) {
        return access_status(env, value, mask);
    }
    if (env->priv >= PRV_S && csr == CSR_SIP) {
        return access_pending(env, value, mask);
    }
    if (env->priv >= PRV_S && csr == CSR_SATP && mask) {
        return access_tables(env, value, mask);
    }
    if (riscv_csrrw(env, (int)csr, &before, value, mask) < 0) {
        refuse(env);
    }
    if (csr == CSR_SEPC) {
        /* Instructions are at even addresses. */
        env->sepc &= ~(target_ulong)1;
    }
    return before;
}

static target_ulong exchange_csr(CPURISCVState *env, target_ulong value, target_ulong csr)
{
    return access_csr(env, (uint32_t)csr, value, -1, true);
}

static target_ulong set_in_csr(CPURISCVState *env, target_ulong bits, target_ulong csr, target_ulong writes)
{
    return access_csr(env, (uint32_t)csr, -1, writes ? bits : 0, writes);
}

static target_ulong clear_in_csr(CPURISCVState *env, target_ulong bits, target_ulong csr, target_ulong writes)
{
    return access_csr(env, (uint32_t)csr, 0, writes ? bits : 0, writes);
}
