/*
 * sfence.vma, the TLB flush of RISC-V. A part of hooks.h.
 *
 * Unicorn flushes the whole TLB, whatever the operands. Linux flushes one address after each page fault, so this
 * flushes only the page of that address where that is enough.
 */
enum { COMPRESSED = 2, FULL = 4, SOURCE = 15, SECOND_SOURCE = 20, REGISTER = 31 };
/* The fixed bits of sfence.vma, and of its lower half. */
enum { FENCE = 0x12000073, FENCE_LOW = 0x0073, FENCE_LOW_MASK = 0x7fff };
#define FENCE_MASK UINT32_C(0xfe007fff)
/* The bits of an address space's number. */
#define SPACES (SATP_ASID / (SATP_ASID & -SATP_ASID))

static uint16_t half_at(CPUState *cpu, uint64_t pc)
{
    return cpu_lduw_code(cpu->env_ptr, (target_ulong)pc);
}

static bool code_word(CPURISCVState *env, uint64_t pc, uint32_t *word)
{
    uint16_t low, high;

    if (!code_half(env, (target_ulong)pc, &low) || !code_half(env, (target_ulong)(pc + HALF_BYTES), &high)) {
        return false;
    }
    *word = (uint32_t)high << 16 | low;
    return true;
}

/*
 * Executes the instruction. The TLB has entries of the current address space only, because each change of satp flushes it. So
 * a fence for another address space (ASID) flushes nothing; it does not cover global pages.
 */
static void fence_by_operands(CPURISCVState *env, struct trapline_machine *machine, uint64_t pc, uint64_t word)
{
    struct target_memory *noted = target_memory_of(env->uc);
    unsigned address_in = word >> SOURCE & REGISTER, space_in = word >> SECOND_SOURCE & REGISTER;
    target_ulong address = env->gpr[address_in];

    if (space_in != 0 && (env->gpr[space_in] & SPACES) != get_field(env->satp, SATP_ASID)) {
        return;
    }
    if (address_in == 0 || noted == NULL || noted->has_large[half_of(address)]) {
        fence(env_cpu(env));
    } else {
        tlb_flush_page(env_cpu(env), address & TARGET_PAGE_MASK);
    }
}

/* Translates the next instruction if it is sfence.vma and the hart may execute it. False: Unicorn translates it. */
static bool fence_by_us(CPUState *cpu, struct trapline_machine *machine, DisasContextBase *db)
{
    CPURISCVState *env = cpu->env_ptr;
    uint32_t word;

    if ((half_at(cpu, db->pc_next) & FENCE_LOW_MASK) != FENCE_LOW || !code_word(env, db->pc_next, &word) || (word & FENCE_MASK) != FENCE) {
        return false;
    }
    if (env->priv != PRV_S || env->mstatus & MSTATUS_TVM) {
        return false;
    }
    call_with_machine(cpu->uc->tcg_ctx, fence_by_operands, "fence_by_operands", machine, db->pc_next, word);
    db->pc_next += FULL;
    return true;
}
