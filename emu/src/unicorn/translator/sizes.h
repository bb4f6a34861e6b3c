/*
 * How many translations of addresses are kept for a mode (docs/unicorn.md, "How many translations are kept"). A part of
 * loop.c.
 *
 * The library chooses that when it forgets all of them, by what was in use within the last tenth of a second of the
 * host's. So a guest that forgets them often pays for a table that it needed once, one that never does keeps pages that
 * it uses all the time in one place, where each makes way for the other; and what is still there, which a guest may see
 * by the marks that a walk leaves in its tables, would be a matter of the host's time. Here it is chosen by what was in
 * use the last times alone, and a table in which pages make way for each other grows at once: for good while it is
 * small, for two pages that are in use all the time may want one place of it.
 */
enum { FEWEST_KEPT = 64, FEW = 256, MOST_KEPT = 1 << 14, MADE_WAY = 4 };

/* Behind this time of the host's the library would go by it. What is above it says how many are kept at least. */
#define NEVER (INT64_MAX / 2)

static bool is_empty(const CPUTLBEntry *entry)
{
    return (entry->addr_read & entry->addr_write & entry->addr_code) == (target_ulong)-1;
}

/* The page, with all that makes it none set aside. */
static target_ulong page_of(struct uc_struct *uc, const CPUTLBEntry *entry)
{
    target_ulong any = entry->addr_read != (target_ulong)-1 ? entry->addr_read : entry->addr_write != (target_ulong)-1 ? entry->addr_write : entry->addr_code;
    return any & TARGET_PAGE_MASK;
}

static size_t kept_in(const CPUTLBDescFast *table)
{
    return (table->mask >> CPU_TLB_ENTRY_BITS) + 1;
}

/* Another table of this many, with all of the old one that finds a place of its own. */
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

/* Whether a place in use is another page's than this address'. */
static bool is_taken(struct uc_struct *uc, const CPUTLBEntry *entry, target_ulong address)
{
    return !is_empty(entry) && page_of(uc, entry) != (address & TARGET_PAGE_MASK);
}

/* In outlive.h. */
static void note_private(CPUState *cpu, target_ulong address, int mode);

/* Before a translation of this address is filled in. */
static void choose_size(CPUState *cpu, vaddr address, int mode)
{
    struct uc_struct *uc = cpu->uc;
    CPUTLB *all = env_tlb((CPUArchState *)cpu->env_ptr);
    CPUTLBDesc *pages = &all->d[mode];
    CPUTLBDescFast *table = &all->f[mode];
    size_t many = kept_in(table), most = pages->window_max_entries, wanted;

    note_private(cpu, address, mode);
    if (pages->window_begin_ns < NEVER) {
        pages->window_begin_ns = NEVER + FEWEST_KEPT;
    }
    if (!(all->c.dirty & 1 << mode)) {
        /* All were forgotten, and the library has noted how many there were if they were many. */
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
