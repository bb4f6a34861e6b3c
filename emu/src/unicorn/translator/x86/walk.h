/*
 * The fast walk of x86's page tables (walk.h) with two, three or four levels. Unicorn walks with five levels, with
 * protection keys, if an accessed or dirty bit must be set, and if the access is refused. A part of loop.c.
 */
enum { DONE_BEFORE = PG_PRESENT_MASK | PG_ACCESSED_MASK };

static bool target_walk(CPUState *cpu, vaddr address, int access, int mode)
{
    CPUX86State *env = cpu->env_ptr;
    bool pae = env->cr[4] & CR4_PAE_MASK, is_long = env->hflags & HF_LMA_MASK, user = mode == MMU_USER_IDX;
    uint64_t refused = (env->efer & MSR_EFER_NXE ? 0 : PG_NX_MASK) | PG_HI_RSVD_MASK;
    uint64_t allowed = PG_USER_MASK | PG_RW_MASK, never = 0, row, table;
    unsigned shift = is_long ? 39 : pae ? 30 : 22, level = is_long ? 4 : pae ? 3 : 2;
    uint64_t large;
    MemTxAttrs attributes;
    int protection = 0;

    if (!(env->cr[0] & CR0_PG_MASK) || env->cr[4] & (CR4_LA57_MASK | CR4_PKE_MASK) || env->a20_mask != -1 || env->hflags2 & HF2_NPT_MASK) {
        return false;
    }
    if (is_long ? (int64_t)address >> 47 != 0 && (int64_t)address >> 47 != -1 : address >> 32 != 0) {
        return false;
    }
    table = is_long || !pae ? env->cr[3] & PG_ADDRESS_MASK : env->cr[3] & 0xffffffe0;
    for (;; level--, shift -= pae ? 9 : 10) {
        const uint8_t *at = table_of(cpu->uc, table);
        if (at == NULL) {
            return false;
        }
        if (pae) {
            /* The four entries of the highest table of three levels have different bits. */
            bool highest = !is_long && level == 3;
            row = ldq_le_p(at + (address >> shift & (highest ? 3 : 511)) * 8);
            if ((row & (highest ? PG_PRESENT_MASK : DONE_BEFORE)) != (highest ? PG_PRESENT_MASK : DONE_BEFORE)
                || row & (refused | (is_long ? 0 : PG_HI_USER_MASK) | (highest ? PG_NX_MASK : 0))) {
                return false;
            }
            if (!highest) {
                allowed &= row;
                never |= row & PG_NX_MASK;
            }
        } else {
            row = (uint32_t)ldl_le_p(at + (address >> shift & 1023) * 4);
            if ((row & DONE_BEFORE) != DONE_BEFORE) {
                return false;
            }
            allowed &= row;
        }
        if (level == 1) {
            break;
        }
        if (row & PG_PSE_MASK && (pae ? level < 4 && (is_long || level < 3) : env->cr[4] & CR4_PSE_MASK)) {
            break;
        }
        if (level == 4 && row & PG_PSE_MASK) {
            return false;
        }
        table = row & (pae ? PG_ADDRESS_MASK : 0xfffff000);
    }
    large = UINT64_C(1) << shift;
    if (!pae && level == 2 && row & 0x3fe000) {
        /* Bits 32 and up of a 4 MiB page. */
        return false;
    }
    if (row & (large - 1) & PG_ADDRESS_MASK & ~(level == 1 ? 0 : PG_PSE_PAT_MASK)) {
        return false;
    }

    if (user && !(allowed & PG_USER_MASK)) {
        return false;
    }
    if (mode != MMU_KSMAP_IDX || !(allowed & PG_USER_MASK)) {
        protection = PAGE_READ;
        if (allowed & PG_RW_MASK || (!user && !(env->cr[0] & CR0_WP_MASK))) {
            protection |= PAGE_WRITE;
        }
    }
    if (!never && (user || !(env->cr[4] & CR4_SMEP_MASK && allowed & PG_USER_MASK))) {
        protection |= PAGE_EXEC;
    }
    if (!(row & PG_DIRTY_MASK)) {
        protection &= ~PAGE_WRITE;
    }
    if (!(protection & 1 << access)) {
        return false;
    }
    attributes = cpu_get_mem_attrs(env);
    attributes.target_tlb_bit0 = row & PG_GLOBAL_MASK && env->cr[4] & CR4_PGE_MASK;
    /* The large global pages of the kernel's half form one range already. */
    note_row(cpu, attributes.target_tlb_bit0, level > 1 && address >> (is_long ? 63 : 31) == 0, mode);
    row = (row & PG_ADDRESS_MASK & ~(large - 1)) | (address & (large - 1));
    fill_in(cpu, address, row, attributes, protection, mode, large);
    return true;
}
#define target_walk target_walk
