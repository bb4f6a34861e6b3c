/*
 * The sizes of the TLBs (docs/unicorn.md, "The size of the TLB"). A part of loop.c. Each MMU mode has a
 * direct-mapped TLB, whose number of entries is a power of two, and a victim TLB of CPU_VTLB_SIZE entries.
 *
 * Unicorn sizes the TLB of a mode at each flush, from the number of entries used within the last 100 ms of host time. So a
 * guest that flushes often pays for a large TLB that it needed once. In a guest that never flushes, pages in constant use
 * keep replacing each other. And the entries that are present would depend on host time, which a guest can see by the
 * accessed bits that a page-table walk sets.
 *
 * Here the size depends only on the number of entries in use at the last flushes: four times that number. A TLB in which
 * pages replace each other doubles at once, if more than 1/16 of its entries are used. Below FEW entries it doubles at the
 * first such conflict and keeps the new size as its minimum, because two pages in constant use may map to the same entry.
 */
enum {
    /* The smallest and the largest number of entries. */
    FEWEST_KEPT = 64,
    MOST_KEPT = 1 << 14,
    /* A TLB with fewer entries grows at the first conflict. */
    FEW = 256,
    /* A larger TLB grows when this many entries have moved to the victim TLB since it was flushed or has grown. */
    MADE_WAY = 4,
};

/* Unicorn shrinks a TLB only when host time is past `window_begin_ns`. With values from here on that never happens, and the
   difference to NEVER is our own minimum size of the TLB. */
#define NEVER (INT64_MAX / 2)

static inline bool is_empty(const CPUTLBEntry *entry)
{
    return (entry->addr_read & entry->addr_write & entry->addr_code) == (target_ulong)-1;
}

/* The address of the page, from any kind of access that the entry allows. */
static target_ulong page_of(struct uc_struct *uc, const CPUTLBEntry *entry)
{
    target_ulong any = entry->addr_read != (target_ulong)-1 ? entry->addr_read : entry->addr_write != (target_ulong)-1 ? entry->addr_write : entry->addr_code;
    return any & TARGET_PAGE_MASK;
}

/* The number of entries of the TLB, used or not. */
static size_t kept_in(const CPUTLBDescFast *table)
{
    return (table->mask >> CPU_TLB_ENTRY_BITS) + 1;
}

/*
 * Unicorn subtracts an entry that moves to the victim TLB from its count of used entries, and again when it flushes the
 * entry there. It does not add an entry that moves back. So the count becomes too small and finally negative, which is a
 * huge unsigned number, and Unicorn chooses TLB sizes by it. This function counts again if the count is impossible.
 */
static void count(CPUTLBDesc *pages, const CPUTLBDescFast *table)
{
    size_t many = kept_in(table);

    if (pages->n_used_entries > many) {
        pages->n_used_entries = 0;
        for (size_t number = 0; number < many; number++) {
            pages->n_used_entries += !is_empty(&table->table[number]);
        }
    }
    pages->window_max_entries = MIN(pages->window_max_entries, many);
}

/* Repairs the counts of all modes. Called before Unicorn flushes whole TLBs, because it then reads the counts. */
static inline void count_again(CPUState *cpu)
{
    CPUTLB *all = env_tlb((CPUArchState *)cpu->env_ptr);

    for (int mode = 0; mode < NB_MMU_MODES; mode++) {
        count(&all->d[mode], &all->f[mode]);
    }
}

/*
 * Replaces the TLB by one of `many` entries. Moves all old entries into it, with those of the victim TLB, except those whose
 * place is taken. Keeps the TLB if the host has no memory.
 */
static void keep(struct uc_struct *uc, CPUTLBDesc *pages, CPUTLBDescFast *table, size_t many)
{
    CPUTLBEntry *entries = g_try_new(CPUTLBEntry, many);
    CPUIOTLBEntry *devices = g_try_new(CPUIOTLBEntry, many);
    size_t before = kept_in(table), kept = 0;

    if (entries == NULL || devices == NULL) {
        g_free(entries);
        g_free(devices);
        return;
    }
    memset(entries, -1, many * sizeof(*entries));
    memset(devices, 0, many * sizeof(*devices));
    for (size_t old = 0; old < before + CPU_VTLB_SIZE; old++) {
        bool made_way = old >= before;
        CPUTLBEntry *entry = made_way ? &pages->vtable[old - before] : &table->table[old];
        size_t place = page_of(uc, entry) >> TARGET_PAGE_BITS & (many - 1);
        if (!is_empty(entry) && is_empty(&entries[place])) {
            entries[place] = *entry;
            devices[place] = made_way ? pages->viotlb[old - before] : pages->iotlb[old];
            kept++;
            if (made_way) {
                memset(entry, -1, sizeof(*entry));
            }
        }
    }
    g_free(table->table);
    g_free(pages->iotlb);
    table->table = entries;
    pages->iotlb = devices;
    table->mask = (many - 1) << CPU_TLB_ENTRY_BITS;
    pages->n_used_entries = kept;
    pages->vindex = 0;
}

/* Whether the entry is used by another page than that of this address. */
static bool is_taken(struct uc_struct *uc, const CPUTLBEntry *entry, target_ulong address)
{
    return !is_empty(entry) && page_of(uc, entry) != (address & TARGET_PAGE_MASK);
}

static void target_before_fill(CPUState *cpu, target_ulong address, int mode);

/* Chooses the size of a mode's TLB. Called before an entry for `address` is filled. */
static void choose_size(CPUState *cpu, vaddr address, int mode)
{
    struct uc_struct *uc = cpu->uc;
    CPUTLB *all = env_tlb((CPUArchState *)cpu->env_ptr);
    CPUTLBDesc *pages = &all->d[mode];
    CPUTLBDescFast *table = &all->f[mode];
    size_t many = kept_in(table), most, wanted;

    target_before_fill(cpu, address, mode);
    count(pages, table);
    most = pages->window_max_entries;
    if (pages->window_begin_ns < NEVER) {
        pages->window_begin_ns = NEVER + FEWEST_KEPT;
    }
    if (!(all->c.dirty & 1 << mode)) {
        /* The TLB was flushed. Unicorn has raised `window_max_entries` if more entries were in use; here it decays. */
        pages->window_max_entries = most - most / 8;
        wanted = MIN(MAX(pow2ceil(4 * most), pages->window_begin_ns - NEVER), MOST_KEPT);
        if (wanted > many || wanted * 4 <= many) {
            keep(uc, pages, table, wanted);
        }
    } else if (pages->vindex >= MADE_WAY && many < MIN(16 * pages->n_used_entries, MOST_KEPT)) {
        keep(uc, pages, table, 2 * many);
    }
    while ((many = kept_in(table)) < FEW && many < 16 * pages->n_used_entries &&
           is_taken(uc, &table->table[address >> TARGET_PAGE_BITS & (many - 1)], address)) {
        pages->window_begin_ns = NEVER + 2 * many;
        keep(uc, pages, table, 2 * many);
    }
}
