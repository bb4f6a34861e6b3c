/* The rows of RISC-V's page tables that a walk for an address reads, and in which the library sets A and D. A part of hooks.h. */
static unsigned target_rows(CPUState *cpu, vaddr address, uint64_t rows[])
{
    CPURISCVState *env = cpu->env_ptr;
    uint64_t table = (uint64_t)get_field(env->satp, SATP_PPN) << PGSHIFT, row;
    unsigned level, bits = 9, bytes = 8, count = 0;

    switch (get_field(env->satp, SATP_MODE)) {
    case VM_1_10_SV32:
        level = 2;
        bits = 10;
        bytes = 4;
        break;
    case VM_1_10_SV39:
        level = 3;
        break;
    case VM_1_10_SV48:
        level = 4;
        break;
    case VM_1_10_SV57:
        level = 5;
        break;
    default:
        return 0;
    }
    while (level-- > 0) {
        uint64_t index = address >> (PGSHIFT + bits * level) & ((UINT64_C(1) << bits) - 1);
        const uint8_t *page = table_of(cpu->uc, table);

        if (page == NULL) {
            break;
        }
        rows[count++] = table + index * bytes;
        row = bytes == 8 ? ldq_le_p(page + index * 8) : (uint32_t)ldl_le_p(page + index * 4);
        if (!(row & PTE_V) || row & (PTE_R | PTE_W | PTE_X)) {
            break;
        }
        table = row >> PTE_PPN_SHIFT << PGSHIFT;
    }
    return count;
}
#define target_rows target_rows
