/* The x86 page-table entries that a walk for an address reads, and in which Unicorn may set the bits A and D. A part of
   hooks.h. */
static unsigned target_rows(CPUState *cpu, vaddr address, uint64_t rows[])
{
    CPUX86State *env = cpu->env_ptr;
    bool pae = env->cr[4] & CR4_PAE_MASK, is_long = env->hflags & HF_LMA_MASK;
    unsigned bits = pae ? 9 : 10, level = !pae ? 2 : !is_long ? 3 : env->cr[4] & CR4_LA57_MASK ? 5 : 4, count = 0;
    uint64_t table = is_long || !pae ? env->cr[3] & PG_ADDRESS_MASK : env->cr[3] & 0xffffffe0, row;

    if (!(env->cr[0] & CR0_PG_MASK)) {
        return 0;
    }
    while (level-- > 0) {
        uint64_t index = address >> (12 + bits * level) & ((UINT64_C(1) << bits) - 1);
        const uint8_t *page = table_of(cpu->uc, table & ~UINT64_C(0xfff));

        if (pae && !is_long && level == 2) {
            index &= 3;
        }
        if (page == NULL) {
            break;
        }
        page += table & 0xfff;
        rows[count++] = table + index * (pae ? 8 : 4);
        row = pae ? ldq_le_p(page + index * 8) : (uint32_t)ldl_le_p(page + index * 4);
        if (!(row & PG_PRESENT_MASK) || (row & PG_PSE_MASK && (level == 1 || level == 2))) {
            break;
        }
        table = row & (pae ? PG_ADDRESS_MASK : 0xfffff000);
    }
    return count;
}
#define target_rows target_rows
