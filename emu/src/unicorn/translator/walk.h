/*
 * Walks the guest's page tables directly in host memory, for the common case (docs/unicorn.md, "Fast page-table walks"). A part
 * of loop.c.
 *
 * Unicorn reads each page table entry like device memory, through a search for the mapping of its address, and searches
 * in the same way for the page that it has found. Here a walk is done as long as nothing has to be written and nothing
 * is refused; everything else is left to Unicorn.
 */
#include "exec/ramlist.h"

/* The page size of all TLB entries (unicorn/stores.rs) of the targets with fast walks. */
enum { SMALLEST_BITS = 12 };

/*
 * Replaces Unicorn's `memory_mapping`, which it calls at each access that misses the TLB: the region at a physical
 * address. Unicorn walks its tree of regions. A machine has a handful of regions, none inside another.
 */
MemoryRegion *find_memory_mapping(struct uc_struct *uc, hwaddr address);

static MemoryRegion *mapping_of(struct uc_struct *uc, hwaddr address)
{
    for (uint32_t number = 0; number < uc->mapped_block_count; number++) {
        MemoryRegion *region = uc->mapped_blocks[number];
        if (region->ram && address >= region->addr && address < region->end) {
            return region;
        }
    }
    return find_memory_mapping(uc, address);
}

/* The host address of a page of RAM, or NULL. */
static inline uint8_t *host_page(struct uc_struct *uc, hwaddr address, MemoryRegion **region)
{
    *region = mapping_of(uc, address);
    return *region && (*region)->ram ? (*region)->ram_block->host + (address - (*region)->addr) : NULL;
}

/* The host address of a page table, or NULL. */
static inline const uint8_t *table_of(struct uc_struct *uc, hwaddr address)
{
    MemoryRegion *region;
    return host_page(uc, address, &region);
}

/* Adds a large page to the range of large pages: a flush of an address in this range flushes the whole mode. */
static inline void note_large(CPUTLBDesc *pages, target_ulong address, target_ulong size)
{
    uint64_t mask = (target_ulong)~(size - 1), differ;

    if (pages->large_page_addr == (target_ulong)-1) {
        pages->large_page_addr = address;
    } else {
        mask &= pages->large_page_mask;
        differ = (pages->large_page_addr ^ address) & mask;
        mask &= differ ? ~(UINT64_MAX >> clz64(differ)) : UINT64_MAX;
    }
    pages->large_page_addr &= mask;
    pages->large_page_mask = mask;
}

static inline bool is_of(const CPUTLBEntry *entry, target_ulong page)
{
    const target_ulong bits = ~(target_ulong)((1 << SMALLEST_BITS) - 1) | TLB_INVALID_MASK;
    return (entry->addr_read & bits) == page || (entry->addr_write & bits) == page || (entry->addr_code & bits) == page;
}

/* Fills the TLB entry of an address, as Unicorn does for RAM. */
static inline void fill_in(CPUState *cpu, target_ulong address, hwaddr physical, MemTxAttrs attributes, int protection, int mode, target_ulong size)
{
    CPUTLB *all = env_tlb((CPUArchState *)cpu->env_ptr);
    CPUTLBDesc *pages = &all->d[mode];
    target_ulong page = address & ~(target_ulong)((1 << SMALLEST_BITS) - 1);
    hwaddr from = physical & ~(hwaddr)((1 << SMALLEST_BITS) - 1);
    MemoryRegion *region;
    uint8_t *host = host_page(cpu->uc, from, &region);
    size_t index = page >> SMALLEST_BITS & all->f[mode].mask >> CPU_TLB_ENTRY_BITS;
    CPUTLBEntry *entry = &all->f[mode].table[index], now;

    if (host == NULL || region->readonly || region->end - from < 1 << SMALLEST_BITS || !QTAILQ_EMPTY(&cpu->watchpoints)) {
        tlb_set_page_with_attrs(cpu, page, from, attributes, protection, mode, size);
        return;
    }
    if (size > 1 << SMALLEST_BITS) {
        note_large(pages, page, size);
    }
    all->c.dirty |= 1 << mode;
    /* Unicorn searches the victim TLB before it asks for an entry, so the page must not be in it. */
    for (size_t old = 0; old < CPU_VTLB_SIZE; old++) {
        if (is_of(&pages->vtable[old], page)) {
            memset(&pages->vtable[old], -1, sizeof(CPUTLBEntry));
            pages->n_used_entries--;
        }
    }
    if (!is_of(entry, page) && (entry->addr_read & entry->addr_write & entry->addr_code) != (target_ulong)-1) {
        size_t old = pages->vindex++ % CPU_VTLB_SIZE;
        pages->vtable[old] = *entry;
        pages->viotlb[old] = pages->iotlb[index];
        pages->n_used_entries--;
    }
    pages->n_used_entries++;
    pages->iotlb[index].addr = region->ram_block->offset + (from - region->addr) - page;
    pages->iotlb[index].attrs = attributes;
    memset(&now, 0, sizeof(now));
    now.addr_read = protection & PAGE_READ ? page : (target_ulong)-1;
    now.addr_write = protection & PAGE_WRITE ? page | TLB_NOTDIRTY : (target_ulong)-1;
    now.addr_code = protection & PAGE_EXEC ? page : (target_ulong)-1;
    now.addend = (uintptr_t)host - page;
    now.paddr = from;
    *entry = now;
}
