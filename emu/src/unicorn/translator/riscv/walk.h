/*
 * The fast walk of RISC-V's page tables (walk.h): Sv32, Sv39, Sv48 and Sv57. Unicorn walks if an accessed or dirty bit
 * must be set, if the access is refused, and with physical memory protection. A part of hooks.h.
 */

/* The page tables in force. */
struct tables {
    hwaddr root;
    /* The levels, the address bits that each decodes, and the bytes of an entry. */
    unsigned levels, bits, bytes;
};

/* Decodes satp. False: translation is off, or the mode is unknown. */
static bool tables_in_force(CPURISCVState *env, struct tables *tables)
{
    tables->root = (hwaddr)get_field(env->satp, SATP_PPN) << PGSHIFT;
    tables->bits = 9;
    tables->bytes = 8;
    switch (get_field(env->satp, SATP_MODE)) {
    case VM_1_10_SV32:
        tables->levels = 2;
        tables->bits = 10;
        tables->bytes = 4;
        return true;
    case VM_1_10_SV39:
        tables->levels = 3;
        return true;
    case VM_1_10_SV48:
        tables->levels = 4;
        return true;
    case VM_1_10_SV57:
        tables->levels = 5;
        return true;
    default:
        return false;
    }
}

/* The offset in its table of the entry for an address. Level 0 is the last one. */
static inline unsigned entry_offset(const struct tables *tables, unsigned level, vaddr address)
{
    return (address >> (PGSHIFT + tables->bits * level) & ((1u << tables->bits) - 1)) * tables->bytes;
}

static inline uint64_t entry_at(const struct tables *tables, const uint8_t *host)
{
    return tables->bytes == 8 ? ldq_le_p(host) : (uint32_t)ldl_le_p(host);
}

/* The bits of an entry above the page number belong to extensions that the core does not have. */
enum { ENTRY_BITS = 54 };

/* Leaves a walk to Unicorn, which may find a large page. */
static bool leave_walk(CPUState *cpu, vaddr address)
{
    note_large_page(cpu, address);
    return false;
}

static bool target_walk(CPUState *cpu, vaddr address, int access, int mode)
{
    CPURISCVState *env = cpu->env_ptr;
    bool user = mode == PRV_U, with_programs = env->mstatus & MSTATUS_SUM && access != MMU_INST_FETCH;
    uint64_t readable = env->mstatus & MSTATUS_MXR ? PTE_R | PTE_X : PTE_R, entry, offset;
    struct tables tables;
    unsigned level;
    int protection = 0;

    if ((!user && mode != PRV_S) || !tables_in_force(env, &tables) || env->priv_ver < PRIV_VERSION_1_10_0
        || env->pmp_state.num_rules != 0 || riscv_has_ext(env, RVH)) {
        return leave_walk(cpu, address);
    }
    if (TARGET_LONG_BITS == 64) {
        int64_t above = (int64_t)address >> (PGSHIFT + tables.levels * tables.bits - 1);
        if (above != 0 && above != -1) {
            return false;
        }
    }
    for (level = tables.levels - 1;; level--) {
        const uint8_t *table = table_of(cpu->uc, tables.root);
        if (table == NULL) {
            return leave_walk(cpu, address);
        }
        entry = entry_at(&tables, table + entry_offset(&tables, level, address));
        if (!(entry & PTE_V)) {
            return false;
        }
        if (entry >> ENTRY_BITS) {
            return leave_walk(cpu, address);
        }
        if (entry & (PTE_R | PTE_W | PTE_X)) {
            break;
        }
        if (level == 0) {
            return false;
        }
        tables.root = entry >> PTE_PPN_SHIFT << PGSHIFT;
    }
    if (level > 0) {
        note_large_page(cpu, address);
    }
    offset = (UINT64_C(1) << (PGSHIFT + tables.bits * level)) - 1;
    if ((entry & (PTE_R | PTE_W)) == PTE_W || !(entry & PTE_A)
        || (entry & PTE_U ? !user && !with_programs : user)
        || (entry >> PTE_PPN_SHIFT << PGSHIFT & offset)) {
        return false;
    }
    protection |= entry & readable ? PAGE_READ : 0;
    protection |= (entry & (PTE_W | PTE_D)) == (PTE_W | PTE_D) ? PAGE_WRITE : 0;
    protection |= entry & PTE_X ? PAGE_EXEC : 0;
    if (!(protection & 1 << access)) {
        return false;
    }
    fill_in(cpu, address, (entry >> PTE_PPN_SHIFT << PGSHIFT) | (address & offset), MEMTXATTRS_UNSPECIFIED, protection, mode,
            TARGET_PAGE_SIZE);
    return true;
}
#define target_walk target_walk

/* The page-table entries that a walk for an address reads, and in which Unicorn may set A and D. */
static unsigned target_rows(CPUState *cpu, vaddr address, uint64_t rows[])
{
    struct tables tables;
    unsigned count = 0;

    if (!tables_in_force(cpu->env_ptr, &tables)) {
        return 0;
    }
    for (unsigned level = tables.levels; level-- > 0;) {
        unsigned offset = entry_offset(&tables, level, address);
        const uint8_t *table = table_of(cpu->uc, tables.root);
        uint64_t entry;

        if (table == NULL) {
            break;
        }
        rows[count++] = tables.root + offset;
        entry = entry_at(&tables, table + offset);
        if (!(entry & PTE_V) || entry & (PTE_R | PTE_W | PTE_X)) {
            break;
        }
        tables.root = entry >> PTE_PPN_SHIFT << PGSHIFT;
    }
    return count;
}
#define target_rows target_rows
