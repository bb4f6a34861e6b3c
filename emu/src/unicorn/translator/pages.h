/*
 * Pages that once had translated code (docs/unicorn.md, "Instructions"). A part of loop.c.
 *
 * Stores to a page with translated code take a slow path, and Unicorn never ends that: memory that was a kernel's init
 * text or a program's text stays slow for its next owner. Unicorn has a list of the blocks in each page, and removes
 * blocks that a store has overwritten: a page without blocks has no code to watch.
 */

/* Unicorn's data of a page. Only the first field is used here: a list of the blocks in it, 0 if empty. */
struct page {
    uintptr_t blocks;
    unsigned long *written_to;
    unsigned int writes;
};

enum { BITS_OF_A_LEVEL = 10 };

/* Unicorn's data of the page with this RAM address, from its radix tree of pages. NULL if it has none. */
static const struct page *page_at(struct uc_struct *uc, ram_addr_t address)
{
    const ram_addr_t number = address >> TARGET_PAGE_BITS, in_level = (1 << BITS_OF_A_LEVEL) - 1;
    void *const *at = uc->l1_map + (number >> uc->v_l1_shift & (uc->v_l1_size - 1));
    const struct page *pages;

    for (int level = uc->v_l2_levels; level > 0 && *at; level--) {
        at = (void *const *)*at + (number >> level * BITS_OF_A_LEVEL & in_level);
    }
    pages = *at;
    return pages ? pages + (number & in_level) : NULL;
}

/* Whether the page at this host address has blocks. True for memory that is not RAM, for which nothing is known. */
static bool holds_code(CPUState *cpu, void *host)
{
    ram_addr_t address = qemu_ram_addr_from_host(cpu->uc, host);
    const struct page *page = address == RAM_ADDR_INVALID ? NULL : page_at(cpu->uc, address);

    return address == RAM_ADDR_INVALID || (page && page->blocks);
}

/* In a TLB entry of the page: clears the slow-store flag, and makes the next fetch fill the entry, so that it is noticed. */
static void watch_no_more(struct uc_struct *uc, CPUTLBEntry *entry, uintptr_t host)
{
    if (!is_empty(entry) && page_of(uc, entry) + entry->addend == host) {
        if (entry->addr_code != (target_ulong)-1) {
            entry->addr_code |= TLB_INVALID_MASK;
        }
        if (entry->addr_write != (target_ulong)-1) {
            entry->addr_write &= ~(target_ulong)TLB_NOTDIRTY;
        }
    }
}

/* If the page has no blocks, clears the slow-store flag in all its TLB entries and returns true. */
static bool release(CPUState *cpu, void *host)
{
    struct uc_struct *uc = cpu->uc;
    CPUTLB *all = env_tlb((CPUArchState *)cpu->env_ptr);

    if (holds_code(cpu, host)) {
        return false;
    }
    for (int mode = 0; mode < NB_MMU_MODES; mode++) {
        size_t many = kept_in(&all->f[mode]);
        for (size_t number = 0; number < many; number++) {
            watch_no_more(uc, &all->f[mode].table[number], (uintptr_t)host);
        }
        for (size_t number = 0; number < CPU_VTLB_SIZE; number++) {
            watch_no_more(uc, &all->d[mode].vtable[number], (uintptr_t)host);
        }
    }
    return true;
}

/*
 * The data of the TLB other than the entry itself, for tests that compare `fill_in` with Unicorn's function: the
 * address for devices, the range of large pages, the number of entries, and the victim TLB.
 */
static void kept(CPUState *cpu, vaddr address, int mode, uint64_t to[8])
{
    CPUTLB *all = env_tlb((CPUArchState *)cpu->env_ptr);
    CPUTLBDesc *pages = &all->d[mode];
    CPUIOTLBEntry *device = &pages->iotlb[address >> SMALLEST_BITS & all->f[mode].mask >> CPU_TLB_ENTRY_BITS];
    MemTxAttrs of = device->attrs;

    target_hide_marks(&of);
    to[0] = device->addr;
    to[1] = of.unspecified | of.secure << 1 | of.user << 2 | of.byte_swap << 3 | of.target_tlb_bit0 << 4;
    to[2] = pages->large_page_addr;
    to[3] = pages->large_page_mask;
    to[4] = pages->n_used_entries;
    to[5] = pages->vindex;
    to[6] = all->c.dirty;
    to[7] = 0;
    for (size_t old = 0; old < CPU_VTLB_SIZE; old++) {
        const CPUTLBEntry *entry = &pages->vtable[old];
        to[7] = to[7] * 31 + entry->addr_read + 3 * entry->addr_write + 5 * entry->addr_code;
        to[7] = to[7] * 31 + 7 * entry->addend + 11 * pages->viotlb[old].addr;
    }
}
