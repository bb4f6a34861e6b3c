/*
 * Pages that held code once (docs/unicorn.md, "Instructions"). A part of loop.c.
 *
 * Stores to a page of which code was translated take a long way, and the library never ends that: what a kernel frees of
 * its own text, and what a program's text was, stays slow for whoever gets the page next. The library knows of each page
 * which blocks lie in it, and takes out what a store has made wrong: a page without any has no code to watch.
 */

/* What the library keeps of a page; only the first of it matters here: a list of the blocks in it, 0 for none. */
struct page {
    uintptr_t blocks;
    unsigned long *written_to;
    unsigned int writes;
};

enum { BITS_OF_A_LEVEL = 10 };

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

/* Whether a block lies in the page at this address of the host's. Of what is no RAM nobody knows. */
static bool holds_code(CPUState *cpu, void *host)
{
    ram_addr_t address = qemu_ram_addr_from_host(cpu->uc, host);
    const struct page *page = address == RAM_ADDR_INVALID ? NULL : page_at(cpu->uc, address);

    return address == RAM_ADDR_INVALID || (page && page->blocks);
}

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

/* If no block lies in the page: stores to it go the quick way, and whoever fetches from it asks for a translation. */
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
