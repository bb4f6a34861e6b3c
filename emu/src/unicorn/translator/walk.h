/*
 * Walks the guest's page tables directly in host memory, for the common case (docs/unicorn.md, "Quick walks"). A part
 * of loop.c.
 *
 * Unicorn reads each page table entry like device memory, through a search for the mapping of its address, and searches
 * in the same way for the page that it has found. Here a walk is done as long as nothing has to be written and nothing
 * is refused; everything else is left to Unicorn.
 */
#include "exec/ramlist.h"

/* The page size of all TLB entries (unicorn/stores.rs) of the targets with fast walks. */
enum { SMALLEST_BITS = 12 };

#if defined(TARGET_X86_64) || defined(TARGET_AARCH64)
/* The host address of a page of RAM, or NULL. */
static uint8_t *host_page(struct uc_struct *uc, hwaddr address, MemoryRegion **region)
{
    *region = mapping_of(uc, address);
    return *region && (*region)->ram ? (*region)->ram_block->host + (address - (*region)->addr) : NULL;
}

/* The host address of a page table, or NULL. */
static const uint8_t *table_of(struct uc_struct *uc, hwaddr address)
{
    MemoryRegion *region;
    return host_page(uc, address, &region);
}

/* Adds a large page to the range of large pages: a flush of an address in this range flushes the whole mode. */
static void note_large(CPUTLBDesc *pages, target_ulong address, target_ulong size)
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

static bool is_of(const CPUTLBEntry *entry, target_ulong page)
{
    const target_ulong bits = ~(target_ulong)((1 << SMALLEST_BITS) - 1) | TLB_INVALID_MASK;
    return (entry->addr_read & bits) == page || (entry->addr_write & bits) == page || (entry->addr_code & bits) == page;
}

/* Fills the TLB entry of an address, as Unicorn does for RAM. */
static void fill_in(CPUState *cpu, target_ulong address, hwaddr physical, MemTxAttrs attributes, int protection, int mode, target_ulong size)
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
#endif

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

#ifdef TARGET_X86_64
    /* A mark used by outlive.h only. */
    of.target_tlb_bit0 = 0;
#endif
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

#if defined(TARGET_X86_64)
#include "walk_x86.h"
#elif defined(TARGET_AARCH64)
#include "walk_arm64.h"
#elif defined(TARGET_PPC) && !defined(TARGET_PPC64)
/*
 * No fast walk, but a fix for Unicorn's own. In a direct-store segment that depends on the type of access, which
 * Unicorn's translator does not always set, and an invalid type ends the process. Most accesses are loads and stores of
 * integers.
 */
static bool walk(CPUState *cpu, vaddr address, int access, int mode)
{
    CPUPPCState *env = cpu->env_ptr;

    switch (env->access_type) {
    case ACCESS_INT:
    case ACCESS_FLOAT:
    case ACCESS_RES:
    case ACCESS_CACHE:
    case ACCESS_EXT:
        break;
    default:
        env->access_type = ACCESS_INT;
    }
    return false;
}
#else
static bool walk(CPUState *cpu, vaddr address, int access, int mode)
{
    return false;
}
#endif
