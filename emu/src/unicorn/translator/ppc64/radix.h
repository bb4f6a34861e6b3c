/*
 * Bounds the radix-tree walks of 64-bit PowerPC (docs/unicorn.md, "64-bit PowerPC"). A part of ppc64/hooks.h.
 *
 * `ppc_radix64_walk_tree` of Unicorn's mmu-radix64.c, 2.1.5, does not check whether an address has bits left to look up. A
 * table that points to itself makes it loop for ever. To a CPU such a tree has an unsupported configuration. So the tree
 * is walked here first; each level looks up at least five bits of the address.
 */
#include "mmu-book3s-v3.h"
#include "mmu-radix64.h"

enum { FEWEST_BITS = 5, SMALLEST_PAGE_BITS = 12 };

static int (*library_walk)(PowerPCCPU *cpu, vaddr address, int access, int mode);

/* Reads a word of the tables; outside of RAM it is 0, an invalid entry. */
static uint64_t table_word(struct uc_struct *uc, hwaddr at)
{
    MemoryRegion *region = mapping_of(uc, at);

    return region && region->ram && region->end - at >= sizeof(uint64_t) ? ldq_be_p(region->ram_block->host + (at - region->addr)) : 0;
}

/* Whether Unicorn's walk for this address ends. */
static bool comes_to_an_end(CPUPPCState *env, vaddr address)
{
    struct uc_struct *uc = env->uc;
    uint64_t processes = table_word(uc, (env->spr[SPR_PTCR] & PTCR_PATB) + 8);
    uint64_t process = address >> 63 ? 0 : env->spr[SPR_BOOKS_PID];
    bool has_row = process >> ((processes & PATE1_R_PRTS) + 8) == 0;
    uint64_t row = table_word(uc, (processes & PATE1_R_PRTB) + process * 16);
    uint64_t table = row & PRTBE_R_RPDB, bits = row & PRTBE_R_RPDS, left = PRTBE_R_GET_RTS(row);

    while (has_row && bits >= FEWEST_BITS) {
        if (left < bits + SMALLEST_PAGE_BITS) {
            return false;
        }
        left -= bits;
        row = table_word(uc, table + ((address & R_EADDR_MASK) >> left & ((UINT64_C(1) << bits) - 1)) * sizeof(row));
        if (!(row & R_PTE_VALID) || row & R_PTE_LEAF) {
            return true;
        }
        table = row & R_PDE_NLB;
        bits = row & R_PDE_NLS;
    }
    return true;
}

/* The page-table entries that a walk for an address reads, and in which Unicorn may set R and C. */
static unsigned target_rows(CPUState *cpu, vaddr address, uint64_t rows[])
{
    CPUPPCState *env = cpu->env_ptr;
    uint64_t processes = table_word(env->uc, (env->spr[SPR_PTCR] & PTCR_PATB) + 8);
    uint64_t process = address >> 63 ? 0 : env->spr[SPR_BOOKS_PID];
    uint64_t row = table_word(env->uc, (processes & PATE1_R_PRTB) + process * 16);
    uint64_t table = row & PRTBE_R_RPDB, bits = row & PRTBE_R_RPDS, left = PRTBE_R_GET_RTS(row);
    unsigned count = 0;

    if (!(env->spr[SPR_LPCR] & LPCR_HR)) {
        return 0;
    }
    while (count < MOST_ROWS && bits >= FEWEST_BITS && left >= bits + SMALLEST_PAGE_BITS) {
        left -= bits;
        rows[count] = table + ((address & R_EADDR_MASK) >> left & ((UINT64_C(1) << bits) - 1)) * sizeof(row);
        row = table_word(env->uc, rows[count++]);
        if (!(row & R_PTE_VALID) || row & R_PTE_LEAF) {
            break;
        }
        table = row & R_PDE_NLB;
        bits = row & R_PDE_NLS;
    }
    return count;
}
#define target_rows target_rows

/* In place of Unicorn's walk: reports a tree without an end to the guest as an unsupported configuration. */
static int walk_that_ends(PowerPCCPU *cpu, vaddr address, int access, int mode)
{
    CPUPPCState *env = &cpu->env;
    bool is_translated = access == MMU_INST_FETCH ? msr_ir : msr_dr;

    if (!(env->spr[SPR_LPCR] & LPCR_HR) || !is_translated || comes_to_an_end(env, address)) {
        return library_walk(cpu, address, access, mode);
    }
    env->error_code = 0;
    if (access == MMU_INST_FETCH) {
        CPU(cpu)->exception_index = POWERPC_EXCP_ISI;
        env->error_code = DSISR_R_BADCONFIG;
    } else {
        CPU(cpu)->exception_index = POWERPC_EXCP_DSI;
        env->spr[SPR_DSISR] = DSISR_R_BADCONFIG | (access == MMU_DATA_STORE ? DSISR_ISSTORE : 0);
        env->spr[SPR_DAR] = address;
    }
    return 1;
}

static void target_make_ready(struct uc_struct *uc)
{
    PowerPCCPU *cpu = POWERPC_CPU(uc->cpu);

    library_walk = cpu->cc.handle_mmu_fault;
    cpu->cc.handle_mmu_fault = walk_that_ends;
}
#define target_make_ready target_make_ready
