/*
 * The fast walk of AArch64's stage 1 page tables, for granules of 4, 16 and 64 KiB, from EL0 and EL1. Unicorn walks if
 * the tables are big-endian, if SCTLR_EL1.WXN is set, if a stage 2 is on, and for addresses of more than 48 bits. A part
 * of loop.c.
 */

enum {
    /* SCTLR_EL1: M, translation is enabled; EE, page tables are big-endian; WXN, writable pages are not executable. */
    TRANSLATES = 1 << 0,
    HIGH_BYTE_FIRST = 1 << 25,
    NOT_WHERE_WRITTEN = 1 << 19,
    /* A page-table entry: it is valid; it is a table, or a page of the last level; then NS, AP[1], AP[2] and AF. */
    THERE = 1 << 0,
    TABLE = 1 << 1,
    NOT_SECURE = 1 << 5,
    FOR_PROGRAMS = 1 << 6,
    READ_ONLY = 1 << 7,
    ACCESSED = 1 << 10,
};

static bool target_walk(CPUState *cpu, vaddr address, int access, int mode)
{
    CPUARMState *env = cpu->env_ptr;
    ARMMMUIdx regime = core_to_aa64_mmu_idx(mode);
    bool user = regime == ARMMMUIdx_E10_0 || regime == ARMMMUIdx_SE10_0;
    bool without_programs = regime == ARMMMUIdx_E10_1_PAN || regime == ARMMMUIdx_SE10_1_PAN;
    bool secure = regime == ARMMMUIdx_SE10_0 || regime == ARMMMUIdx_SE10_1 || regime == ARMMMUIdx_SE10_1_PAN;
    uint64_t settings = env->cp15.sctlr_el[1], translation = env->cp15.tcr_el[1].raw_tcr, row, table, never, size;
    /* The attributes of all tables on the way, which restrict the page: bits PXN, UXN, no access from EL0, read-only, NS. */
    unsigned of_tables = 0, high = address >> 55 & 1, granule, bits, stride, level, shift;
    bool tagged = translation >> (37 + high) & 1, for_programs, written;
    int protection = 0;

    if (!user && !without_programs && regime != ARMMMUIdx_E10_1 && regime != ARMMMUIdx_SE10_1) {
        return false;
    }
    if ((settings & (TRANSLATES | HIGH_BYTE_FIRST | NOT_WHERE_WRITTEN)) != TRANSLATES || !arm_el_is_aa64(env, 1)
        || env->cp15.hcr_el2 & (HCR_VM | HCR_DC | HCR_TGE | HCR_E2H)) {
        return false;
    }
    /* TCR_EL1.EPD: no walks in this half. TCR_EL1.HPD: the attributes of tables do not count. */
    if (translation >> (high ? 23 : 7) & 1 || translation >> (41 + high) & 1) {
        return false;
    }
    granule = translation >> (high ? 30 : 14) & 3;
    stride = granule == (high ? 2 : 0) ? 9 : granule == (high ? 1 : 2) ? 11 : granule == (high ? 3 : 1) ? 13 : 0;
    bits = 64 - (translation >> (high ? 16 : 0) & 63);
    if (stride == 0 || bits > 48 || bits < 25) {
        return false;
    }
    tagged = tagged && !(access == MMU_INST_FETCH && translation >> (51 + high) & 1);
    if (sextract64(address, bits, (tagged ? 56 : 64) - bits) != -(int64_t)high) {
        return false;
    }
    level = 4 - (bits - 4) / stride;
    shift = stride * (4 - level) + 3;
    row = high ? env->cp15.ttbr1_el[1] : env->cp15.ttbr0_el[1];
    /* The first table is as large as the address size requires. */
    table = extract64(row, 0, 48) & -(UINT64_C(8) << (bits - shift));
    for (;; level++, shift -= stride) {
        uint64_t rows = level == 4 - (bits - 4) / stride ? UINT64_C(1) << (bits - shift) : UINT64_C(1) << stride;
        uint64_t at = table + (address >> shift & (rows - 1)) * 8;
        const uint8_t *host = table_of(cpu->uc, at);
        if (host == NULL) {
            return false;
        }
        row = ldq_le_p(host);
        if (!(row & THERE)) {
            return false;
        }
        if (level == 3 || !(row & TABLE)) {
            break;
        }
        of_tables |= row >> 59;
        table = extract64(row, 0, 48) & -(UINT64_C(8) << stride);
    }
    /* Refuses a large page at a wrong level, an entry that must be marked as accessed, a non-secure page for a
       secure access; guarded pages. */
    if ((level == 3) != !!(row & TABLE) || !(row & ACCESSED) || row >> 50 & 1
        || (secure && (of_tables & 16 || row & NOT_SECURE))) {
        return false;
    }
    for_programs = row & FOR_PROGRAMS && !(of_tables & 4);
    written = !(row & READ_ONLY) && !(of_tables & 8);
    never = user ? row >> 54 & 1 || of_tables & 2 : row >> 53 & 1 || of_tables & 1 || (for_programs && written);
    if (user ? for_programs : !(for_programs && without_programs)) {
        protection = written ? PAGE_READ | PAGE_WRITE : PAGE_READ;
    }
    protection |= never ? 0 : PAGE_EXEC;
    if (!(protection & 1 << access)) {
        return false;
    }
    size = UINT64_C(1) << shift;
    row = (extract64(row, 0, 48) & -(UINT64_C(8) << stride)) | (address & (size - 1));
    fill_in(cpu, address, row, (MemTxAttrs){.secure = secure, .user = user}, protection, mode, size);
    return true;
}
#define target_walk target_walk
