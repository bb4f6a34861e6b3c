/*
 * The addresses of the page-table entries that Unicorn's walk may change on 32-bit PowerPC: it searches two groups (PTEGs) of
 * the hash table, and sets the bits R and C of the entry that it finds. A part of hooks.h.
 */
#include "mmu-hash32.h"

static unsigned target_rows(CPUState *cpu, vaddr address, uint64_t rows[])
{
    PowerPCCPU *own = POWERPC_CPU(cpu);
    target_ulong segment = own->env.sr[address >> 28 & 0xf];
    hwaddr hash = (segment & SR32_VSID) ^ (address >> 12 & 0xffff);
    hwaddr base = ppc_hash32_hpt_base(own), mask = ppc_hash32_hpt_mask(own);

    rows[0] = base + (hash * HASH_PTEG_SIZE_32 & mask);
    rows[1] = base + (~hash * HASH_PTEG_SIZE_32 & mask);
    return 2;
}
#define target_rows target_rows
