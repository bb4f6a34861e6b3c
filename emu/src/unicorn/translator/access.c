/*
 * The slow path of loads and stores, which reports accesses to watched bytes (docs/unicorn.md, "Watched pages").
 *
 * A watched page has a flag in its TLB entries, TLB_WATCHPOINT. Translated code compares whole words, so the flag sends
 * every access to the slow path, where Unicorn does nothing for it. This file compiles Unicorn's own cputlb.c out of the
 * crate that is linked, so this object defines every symbol that Unicorn's object does, and is linked in its place, like
 * loop.c in place of translator.c. The preprocessor renames four functions: a definition keeps Unicorn's text under the
 * name `library_...`, a call goes to ours.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/exec-all.h"
#include "exec/cpu_ldst.h"
#include "tcg/tcg.h"
#include <uc_priv.h>

#include "watched.h"
#ifdef TRAPLINE_ACCESS
#include TRAPLINE_ACCESS
#endif

#ifdef TARGET_WORDS_BIGENDIAN
#define TARGET_ENDIAN_IS_BIG true
#else
#define TARGET_ENDIAN_IS_BIG false
#endif

/* Hooks for the watchpoints of the guest's own debug registers. They are used while WATCHED is not NULL. */
#ifndef target_watches_page
/* Whether the guest watches such accesses to a part of these bytes, which are in one page. */
static inline bool target_watches_page(CPUArchState *env, uint64_t page, uint64_t size, bool is_store)
{
    return false;
}
#endif

#ifndef target_meet_watch
/* Called before an access, which the guest may watch. It need not return. */
static inline void target_meet_watch(CPUArchState *env, target_ulong addr, unsigned size, bool is_store, uintptr_t ra)
{
}
#endif

/* The largest operand, in bytes, that may be reported as one access although it lies in two pages, for each of which its
   helper calls probe_access. 0: no helper of this CPU does that. */
#ifndef TARGET_LARGEST_OPERAND
#define TARGET_LARGEST_OPERAND 0
#endif

/* TARGET_PAGE_MASK uses it where the page size is chosen at run time. */
#define ENGINE __attribute__((unused)) struct uc_struct *uc

typedef uint64_t Full(CPUArchState *, target_ulong, TCGMemOpIdx, uintptr_t);
static inline __attribute__((always_inline)) uint64_t
library_load(CPUArchState *env, target_ulong addr, TCGMemOpIdx oi, uintptr_t ra, MemOp op, bool code_read, Full *full);
static inline __attribute__((always_inline)) void
library_store(CPUArchState *env, target_ulong addr, uint64_t val, TCGMemOpIdx oi, uintptr_t ra, MemOp op);
static inline __attribute__((always_inline)) uint64_t
our_load(CPUArchState *env, target_ulong addr, TCGMemOpIdx oi, uintptr_t ra, MemOp op, bool code_read, Full *full);
static inline __attribute__((always_inline)) void
our_store(CPUArchState *env, target_ulong addr, uint64_t val, TCGMemOpIdx oi, uintptr_t ra, MemOp op);
static void part_of_store(CPUArchState *env, target_ulong addr, uint8_t val, TCGMemOpIdx oi, uintptr_t ra);
static bool our_victim_hit(CPUArchState *env, size_t mmu_idx, size_t index, size_t offset, target_ulong page);

/*
 * A macro of the same name replaces each use of Unicorn's load_helper. It pastes the argument `op` to LOAD_: the definition
 * has `MemOp op` there and becomes `library_load`. A call has a constant: those with a byte order or of one byte are data
 * loads and go to `our_load`; those for the target's byte order (MO_TE..., MO_8) fetch code and go to `library_load`.
 */
#define PICK(...) PICK_(__VA_ARGS__)
#define PICK_(name, nothing, ...) name(__VA_ARGS__)
#define LOAD_MemOp library_load,
#define LOAD_MO_UB our_load,
#define LOAD_MO_8 library_load,
#define LOAD_MO_LEUW our_load,
#define LOAD_MO_BEUW our_load,
#define LOAD_MO_TEUW library_load,
#define LOAD_MO_LEUL our_load,
#define LOAD_MO_BEUL our_load,
#define LOAD_MO_TEUL library_load,
#define LOAD_MO_LEQ our_load,
#define LOAD_MO_BEQ our_load,
#define LOAD_MO_TEQ library_load,
#define load_helper(env, addr, oi, ra, op, code, full) PICK(LOAD_##op, env, addr, oi, ra, op, code, full)

#define STORE_MemOp library_store,
#define STORE_op our_store,
#define STORE_MO_UB our_store,
#define STORE_MO_LEUW our_store,
#define STORE_MO_BEUW our_store,
#define STORE_MO_LEUL our_store,
#define STORE_MO_BEUL our_store,
#define STORE_MO_LEQ our_store,
#define STORE_MO_BEQ our_store,
#define store_helper(env, addr, val, oi, ra, op) PICK(STORE_##op, env, addr, val, oi, ra, op)

/* Unicorn makes an unaligned store byte by byte, through helper_ret_stb_mmu. Only the whole store is reported, so these
   calls go to `part_of_store`. The exported definition is named TRAPLINE_STORE_BYTE. */
#pragma push_macro("helper_ret_stb_mmu")
#undef helper_ret_stb_mmu
#define BYTE_uint8_t TRAPLINE_STORE_BYTE,
#define BYTE_val8 part_of_store,
#define helper_ret_stb_mmu(env, addr, val, oi, ra) PICK(BYTE_##val, env, addr, val, oi, ra)

/* victim_tlb_hit is told apart in the same way: its definition has `CPUArchState *env`, a call has `env`. */
#define VICTIM_CPUArchState library_victim_hit, CPUArchState
#define VICTIM_env our_victim_hit, env
#define victim_tlb_hit(env, mode, index, offset, page) VICTIM_PICK(VICTIM_##env, mode, index, offset, page)
#define VICTIM_PICK(...) VICTIM_PICK_(__VA_ARGS__)
#define VICTIM_PICK_(name, ...) name(__VA_ARGS__)

#pragma push_macro("probe_access")
#undef probe_access
#define probe_access library_probe
static void *library_probe(CPUArchState *env, target_ulong addr, int size, MMUAccessType access_type, int mmu_idx, uintptr_t retaddr);
#pragma push_macro("tlb_vaddr_to_host")
#undef tlb_vaddr_to_host
#define tlb_vaddr_to_host library_host
static void *library_host(CPUArchState *env, abi_ptr addr, MMUAccessType access_type, int mmu_idx);

#include "accel/tcg/cputlb.c"

#undef probe_access
#pragma pop_macro("probe_access")
#undef tlb_vaddr_to_host
#pragma pop_macro("tlb_vaddr_to_host")
#undef helper_ret_stb_mmu
#pragma pop_macro("helper_ret_stb_mmu")

/* Unicorn compares whole words when it searches the victim TLB, so an entry with our flag is searched for separately. */
static bool our_victim_hit(CPUArchState *env, size_t mmu_idx, size_t index, size_t offset, target_ulong page)
{
    return library_victim_hit(env, mmu_idx, index, offset, page)
        || (unlikely(WATCHED(env_cpu(env)) != NULL) && library_victim_hit(env, mmu_idx, index, offset, page | TLB_WATCHPOINT));
}

static void part_of_store(CPUArchState *env, target_ulong addr, uint8_t val, TCGMemOpIdx oi, uintptr_t ra)
{
    library_store(env, addr, val, oi, ra, MO_UB);
}

/* An access that crosses a page, or is unaligned on a flagged page, loads two parts, which are not reported. */
#define PART_OF_LOAD(name, op) \
    static uint64_t name(CPUArchState *env, target_ulong addr, TCGMemOpIdx oi, uintptr_t ra) \
    { \
        return library_load(env, addr, oi, ra, op, false, name); \
    }
PART_OF_LOAD(part_ub, MO_UB)
PART_OF_LOAD(part_leuw, MO_LEUW)
PART_OF_LOAD(part_beuw, MO_BEUW)
PART_OF_LOAD(part_leul, MO_LEUL)
PART_OF_LOAD(part_beul, MO_BEUL)
PART_OF_LOAD(part_leq, MO_LEQ)
PART_OF_LOAD(part_beq, MO_BEQ)

static inline __attribute__((always_inline)) Full *part_of(MemOp op)
{
    switch (op) {
    case MO_UB: return part_ub;
    case MO_LEUW: return part_leuw;
    case MO_BEUW: return part_beuw;
    case MO_LEUL: return part_leul;
    case MO_BEUL: return part_beul;
    case MO_LEQ: return part_leq;
    default: return part_beq;
    }
}

#ifndef target_before_report
/* Writes the registers to where the machine reads them, if this CPU keeps them elsewhere while it runs. */
static inline void target_before_report(CPUArchState *env)
{
}
#endif

static inline void report(CPUArchState *env, const struct trapline_watched *watched, const struct trapline_access *access)
{
    target_before_report(env);
    watched->accessed(watched, access);
}

enum { SMALL_BITS = 12, SMALL = 1 << SMALL_BITS, PIECE_BITS = 6 };

static const struct trapline_row *row_of(const struct trapline_watched *watched, uint64_t page)
{
    for (uint64_t at = page * UINT64_C(0x9e3779b97f4a7c15) >> 20;; at++) {
        const struct trapline_row *row = &watched->rows[at & watched->mask];
        if (row->page == page) {
            return row;
        }
        if (row->page == NO_PAGE) {
            return NULL;
        }
    }
}

/* The row of this page if one of these bytes, by their offsets in the page, is in a watched piece. */
static const struct trapline_row *
touched(const struct trapline_watched *watched, uint64_t page, unsigned first, unsigned last, bool is_store)
{
    const struct trapline_row *row = row_of(watched, page);
    uint64_t pieces = UINT64_MAX << (first >> PIECE_BITS) & UINT64_MAX >> (63 - (last >> PIECE_BITS));
    return row != NULL && row->pieces[is_store] & pieces ? row : NULL;
}

/* Fills in the pages of an access and the rows that it touches. False: it touches none. */
static bool
find(const struct trapline_watched *watched, CPUArchState *env, unsigned mmu_idx, struct trapline_access *access)
{
    ENGINE = env->uc;
    bool is_store = access->is_store;
    uint64_t address = access->address, end = (target_ulong)(address + access->size - 1);
    bool crosses = (address ^ end) >> SMALL_BITS != 0;
    unsigned first = address & (SMALL - 1), last = crosses ? SMALL - 1 : end & (SMALL - 1);

    access->physical = tlb_entry(env, mmu_idx, address)->paddr | (address & ~(uint64_t)TARGET_PAGE_MASK);
    access->rows[0] = touched(watched, address >> SMALL_BITS, first, last, is_store);
    access->rows[1] = touched(watched, access->physical >> SMALL_BITS | PHYSICAL, first, last, is_store);
    if (crosses) {
        uint64_t physical = tlb_entry(env, mmu_idx, end)->paddr | (end & ~(uint64_t)TARGET_PAGE_MASK);
        access->other_physical = physical & ~(uint64_t)(SMALL - 1);
        access->rows[2] = touched(watched, end >> SMALL_BITS, 0, end & (SMALL - 1), is_store);
        access->rows[3] = touched(watched, physical >> SMALL_BITS | PHYSICAL, 0, end & (SMALL - 1), is_store);
    }
    return access->rows[0] || access->rows[1] || access->rows[2] || access->rows[3];
}

static inline bool is_flagged(CPUArchState *env, target_ulong addr, size_t size, unsigned mmu_idx, bool is_store)
{
    ENGINE = env->uc;
    CPUTLBEntry *first = tlb_entry(env, mmu_idx, addr), *last = tlb_entry(env, mmu_idx, addr + size - 1);
    return (is_store ? tlb_addr_write(first) | tlb_addr_write(last) : first->addr_read | last->addr_read) & TLB_WATCHPOINT;
}

static inline bool is_big(MemOp op)
{
    return (op & MO_BSWAP) == MO_BE;
}

/*
 * Whether translated code would make this access to host memory by itself, were it not for the flag. `word` is the TLB
 * entry's for the kind of access: it has no other flag. The access is aligned as it must be and lies in one page.
 */
static inline __attribute__((always_inline)) bool
is_plain(CPUArchState *env, target_ulong addr, TCGMemOpIdx oi, MemOp op, target_ulong word)
{
    ENGINE = env->uc;
    target_ulong unaligned = addr & (((target_ulong)1 << get_alignment_bits(get_memop(oi))) - 1);
    target_ulong crossed = (addr ^ (addr + memop_size(op) - 1)) & (TARGET_PAGE_MASK | -(target_ulong)SMALL);
    return (word & (TARGET_PAGE_MASK | TLB_FLAGS_MASK)) == ((addr & TARGET_PAGE_MASK) | TLB_WATCHPOINT)
        && (unaligned | crossed) == 0;
}

/* The rows that an access in one page of 4,096 bytes touches. False: none. */
static inline __attribute__((always_inline)) bool
find_in_page(const struct trapline_watched *watched, uint64_t address, uint64_t physical, size_t size, bool is_store,
             const struct trapline_row *rows[2])
{
    unsigned first = address & (SMALL - 1), last = first + size - 1;
    rows[0] = touched(watched, address >> SMALL_BITS, first, last, is_store);
    rows[1] = touched(watched, physical >> SMALL_BITS | PHYSICAL, first, last, is_store);
    return rows[0] != NULL || rows[1] != NULL;
}

/* The number that these bytes of memory, at most eight, have before a store. Bytes of a device count as 0, because reading
   them may have side effects. */
static uint64_t bytes_at(CPUArchState *env, target_ulong addr, size_t size, unsigned mmu_idx, bool big)
{
    uint64_t value = 0;
    for (size_t n = 0; n < size; n++) {
        ENGINE = env->uc;
        CPUTLBEntry *entry = tlb_entry(env, mmu_idx, addr + n);
        bool is_device = (tlb_addr_write(entry) != (target_ulong)-1 ? tlb_addr_write(entry) : entry->addr_read) & TLB_MMIO;
        uint64_t byte = is_device ? 0 : *(uint8_t *)((uintptr_t)(target_ulong)(addr + n) + entry->addend);
        value |= byte << 8 * (big ? size - 1 - n : n);
    }
    return value;
}

/* The number of the first bytes of a block operand, at most eight. */
static uint64_t block_number(CPUArchState *env, const struct trapline_block *block, unsigned mmu_idx)
{
    return bytes_at(env, block->start, block->size < 8 ? block->size : 8, mmu_idx, TARGET_ENDIAN_IS_BIG);
}

/* Forgets all block operands, at the end of their instruction. */
static void end_blocks(struct trapline_blocks *blocks)
{
    for (unsigned number = 0; number < BLOCKS; number++) {
        blocks->all[number].size = 0;
    }
    blocks->in_parts = false;
}

/*
 * Records that a helper is about to access these bytes of a block operand, in parts if `in_parts`. If they follow the newest
 * operand at a page boundary, they are the rest of that operand.
 */
static void begin_block(CPUArchState *env, target_ulong addr, size_t size, unsigned mmu_idx, bool is_store, bool in_parts, uintptr_t ra)
{
    struct trapline_blocks *blocks = WATCHED(env_cpu(env))->blocks;
    struct trapline_block *block = &blocks->all[blocks->newest % BLOCKS];
    ENGINE = env->uc;

    if (block->host_pc != ra) {
        /* Another instruction. */
        end_blocks(blocks);
    }
    if (block->size != 0 && block->size + size <= TARGET_LARGEST_OPERAND && block->is_store == is_store
        && (target_ulong)(block->start + block->size) == addr && block->next == block->from && (addr & ~TARGET_PAGE_MASK) == 0) {
        block->size += size;
        if (in_parts) {
            block->from = block->to == block->from ? addr : block->from;
            block->to = addr + size;
            block->next = block->from;
        }
    } else {
        blocks->newest += 1;
        block = &blocks->all[blocks->newest % BLOCKS];
        *block = (struct trapline_block){
            .start = addr, .size = size, .from = addr, .to = in_parts ? addr + size : addr, .next = addr, .host_pc = ra,
            .is_store = is_store,
        };
    }
    if (block->to != block->from) {
        blocks->in_parts = true;
        block->before = block_number(env, block, mmu_idx);
    }
}

/* The newest block operand that is accessed in parts and includes this address, by the instruction at `ra`. NULL: none. */
static struct trapline_block *block_of(const struct trapline_watched *watched, uint64_t address, bool is_store, uintptr_t ra)
{
    struct trapline_blocks *blocks = watched->blocks;
    for (unsigned back = 0; unlikely(blocks->in_parts) && back < BLOCKS; back++) {
        struct trapline_block *block = &blocks->all[(blocks->newest - back) % BLOCKS];
        if (block->size != 0 && (block->host_pc == ra || block->host_pc == 0) && block->is_store == is_store
            && (target_ulong)(address - block->from) < (target_ulong)(block->to - block->from)) {
            block->host_pc = ra;
            return block;
        }
    }
    return NULL;
}

/* Records that a part of a block operand was accessed. Reports the operand at the first part of a load, and after the last part
   of a store. */
static void
access_part(CPUArchState *env, struct trapline_block *block, target_ulong addr, size_t size, unsigned mmu_idx)
{
    const struct trapline_watched *watched = WATCHED(env_cpu(env));
    bool is_first = addr == (target_ulong)block->from && block->next == block->from;
    struct trapline_access access = {
        .address = block->start, .before = block->before, .host_pc = block->host_pc, .size = block->size,
        .is_store = block->is_store, .is_big = TARGET_ENDIAN_IS_BIG, .kind = BLOCK,
    };

    /* The helper of DC ZVA first tries single bytes. */
    if ((target_ulong)block->next == addr) {
        block->next = (target_ulong)(addr + size);
    } else {
        block->next = addr == (target_ulong)block->from ? (target_ulong)(addr + size) : block->from;
    }
    if (block->is_store ? (target_ulong)block->next != (target_ulong)block->to : !is_first) {
        return;
    }
    access.value = block->is_store ? block_number(env, block, mmu_idx) : block->before;
    if (block->is_store) {
        /* The instruction's last access. */
        end_blocks(watched->blocks);
    }
    if (find(watched, env, mmu_idx, &access)) {
        report(env, watched, &access);
    }
}

/* Reports a load that has been made. */
static __attribute__((noinline)) void
loaded(CPUArchState *env, target_ulong addr, MemOp op, unsigned mmu_idx, uint64_t value, uintptr_t ra)
{
    const struct trapline_watched *watched = WATCHED(env_cpu(env));
    struct trapline_block *block = block_of(watched, addr, false, ra);
    struct trapline_access access = {
        .address = addr, .before = value, .value = value, .host_pc = ra, .size = memop_size(op), .is_big = is_big(op),
        .kind = block != NULL ? PART : WHOLE,
    };
    if (find(watched, env, mmu_idx, &access)) {
        report(env, watched, &access);
    }
    if (block != NULL) {
        access_part(env, block, addr, memop_size(op), mmu_idx);
    }
}

/* Makes a load that translated code would make by itself, and reports it. False: the load is no such one. */
static inline __attribute__((always_inline)) bool
plain_load(CPUArchState *env, target_ulong addr, TCGMemOpIdx oi, uintptr_t ra, MemOp op, uint64_t *value)
{
    ENGINE = env->uc;
    const struct trapline_watched *watched = WATCHED(env_cpu(env));
    const CPUTLBEntry *entry = tlb_entry(env, get_mmuidx(oi), addr);
    uint64_t physical = entry->paddr | (addr & ~(uint64_t)TARGET_PAGE_MASK);
    const struct trapline_row *rows[2];

    if (!is_plain(env, addr, oi, op, entry->addr_read) || watched->blocks->in_parts) {
        return false;
    }
    *value = load_memop((void *)((uintptr_t)addr + entry->addend), op);
    if (find_in_page(watched, addr, physical, memop_size(op), false, rows)) {
        struct trapline_access access = {
            .address = addr, .physical = physical, .before = *value, .value = *value, .host_pc = ra, .size = memop_size(op),
            .is_big = is_big(op), .kind = WHOLE, .rows = {rows[0], rows[1]},
        };
        report(env, watched, &access);
    }
    return true;
}

static inline __attribute__((always_inline)) uint64_t
our_load(CPUArchState *env, target_ulong addr, TCGMemOpIdx oi, uintptr_t ra, MemOp op, bool code_read, Full *full)
{
    bool is_watching = WATCHED(env_cpu(env)) != NULL;
    uint64_t value;

    if (unlikely(is_watching)) {
        target_meet_watch(env, addr, memop_size(op), false, ra);
        if (plain_load(env, addr, oi, ra, op, &value)) {
            return value;
        }
    }
    value = library_load(env, addr, oi, ra, op, code_read, part_of(op));
    if (unlikely(is_watching) && is_flagged(env, addr, memop_size(op), get_mmuidx(oi), false)) {
        loaded(env, addr, op, get_mmuidx(oi), value, ra);
    }
    return value;
}

/* Fills the TLB entry for a store, as Unicorn would do first. */
static void ready_for_store(CPUArchState *env, target_ulong addr, size_t size, unsigned mmu_idx, uintptr_t ra)
{
    ENGINE = env->uc;
    uintptr_t index = tlb_index(env, mmu_idx, addr);
    CPUTLBEntry *entry = tlb_entry(env, mmu_idx, addr);
    if (!tlb_hit(uc, tlb_addr_write(entry), addr) && !VICTIM_TLB_HIT(addr_write, addr)) {
        tlb_fill(env_cpu(env), addr, size, MMU_DATA_STORE, mmu_idx, ra);
    }
}

/* Fills in the report of a store that is about to be made, with the value that it overwrites. False: the store touches
   nothing watched, or it will fault. */
static __attribute__((noinline)) bool
prepare_store(CPUArchState *env, target_ulong addr, TCGMemOpIdx oi, uintptr_t ra, MemOp op, struct trapline_access *access)
{
    ENGINE = env->uc;
    size_t size = memop_size(op);
    unsigned mmu_idx = get_mmuidx(oi), a_bits = get_alignment_bits(get_memop(oi));

    if (addr & ((1 << a_bits) - 1)) {
        /* It will raise an exception. */
        return false;
    }
    ready_for_store(env, addr, size, mmu_idx, ra);
    if (((addr ^ (addr + size - 1)) & TARGET_PAGE_MASK) != 0) {
        ready_for_store(env, (addr + size) & TARGET_PAGE_MASK, (addr + size) & ~TARGET_PAGE_MASK, mmu_idx, ra);
    }
    if (!is_flagged(env, addr, size, mmu_idx, true)) {
        return false;
    }
    *access = (struct trapline_access){.address = addr, .host_pc = ra, .size = size, .is_store = true, .is_big = is_big(op)};
    access->kind = block_of(WATCHED(env_cpu(env)), addr, true, ra) != NULL ? PART : WHOLE;
    if (!find(WATCHED(env_cpu(env)), env, mmu_idx, access)) {
        return access->kind == PART;
    }
    access->before = bytes_at(env, addr, size, mmu_idx, access->is_big);
    return true;
}

/* Reports a store that has been made. */
static __attribute__((noinline)) void stored(CPUArchState *env, unsigned mmu_idx, const struct trapline_access *access)
{
    const struct trapline_watched *watched = WATCHED(env_cpu(env));
    if (access->rows[0] || access->rows[1] || access->rows[2] || access->rows[3]) {
        report(env, watched, access);
    }
    if (access->kind == PART) {
        struct trapline_block *block = block_of(watched, access->address, true, access->host_pc);
        if (block != NULL) {
            access_part(env, block, access->address, access->size, mmu_idx);
        }
    }
}

/* Makes a store that translated code would make by itself, and reports it. False: the store is no such one. */
static inline __attribute__((always_inline)) bool
plain_store(CPUArchState *env, target_ulong addr, uint64_t val, TCGMemOpIdx oi, uintptr_t ra, MemOp op)
{
    ENGINE = env->uc;
    const struct trapline_watched *watched = WATCHED(env_cpu(env));
    const CPUTLBEntry *entry = tlb_entry(env, get_mmuidx(oi), addr);
    uint64_t physical = entry->paddr | (addr & ~(uint64_t)TARGET_PAGE_MASK);
    void *host = (void *)((uintptr_t)addr + entry->addend);
    const struct trapline_row *rows[2];

    if (!is_plain(env, addr, oi, op, tlb_addr_write(entry)) || watched->blocks->in_parts) {
        return false;
    }
    if (find_in_page(watched, addr, physical, memop_size(op), true, rows)) {
        struct trapline_access access = {
            .address = addr, .physical = physical, .before = load_memop(host, op),
            .value = val & MAKE_64BIT_MASK(0, memop_size(op) * 8), .host_pc = ra, .size = memop_size(op), .is_store = true,
            .is_big = is_big(op), .kind = WHOLE, .rows = {rows[0], rows[1]},
        };
        store_memop(host, val, op);
        report(env, watched, &access);
    } else {
        store_memop(host, val, op);
    }
    return true;
}

static inline __attribute__((always_inline)) void
our_store(CPUArchState *env, target_ulong addr, uint64_t val, TCGMemOpIdx oi, uintptr_t ra, MemOp op)
{
    if (unlikely(WATCHED(env_cpu(env)) != NULL)) {
        struct trapline_access access;
        target_meet_watch(env, addr, memop_size(op), true, ra);
        if (plain_store(env, addr, val, oi, ra, op)) {
            return;
        }
        if (prepare_store(env, addr, oi, ra, op, &access)) {
            library_store(env, addr, val, oi, ra, op);
            access.value = val & MAKE_64BIT_MASK(0, memop_size(op) * 8);
            stored(env, get_mmuidx(oi), &access);
            return;
        }
    }
    library_store(env, addr, val, oi, ra, op);
}

/*
 * Replaces Unicorn's function, with which a helper gets the host address of guest memory, to access it without the
 * functions above. The result is NULL if the access touches a watched piece, as it is for a device: the helper then
 * accesses the operand in parts, by the functions above.
 */
void *probe_access(CPUArchState *env, target_ulong addr, int size, MMUAccessType access_type, int mmu_idx, uintptr_t retaddr)
{
    void *host = library_probe(env, addr, size, access_type, mmu_idx, retaddr);
    const struct trapline_watched *watched = WATCHED(env_cpu(env));
    if (unlikely(watched != NULL) && host != NULL && access_type != MMU_INST_FETCH) {
        struct trapline_access access = {.address = addr, .size = size, .is_store = access_type == MMU_DATA_STORE};
        bool is_touched = is_flagged(env, addr, size, mmu_idx, access.is_store)
            && (find(watched, env, mmu_idx, &access) || target_watches_page(env, addr, size, access.is_store));
        if (size > 0) {
            begin_block(env, addr, size, mmu_idx, access.is_store, is_touched, retaddr);
        }
        return is_touched ? NULL : host;
    }
    return host;
}

/*
 * Replaces Unicorn's function, which returns the host address of guest memory if that needs no fault and the page has no
 * flag. On a watched page it returns NULL, so the helper of an instruction that zeroes a block (DC ZVA) stores bytes. They
 * are reported as one access.
 */
void *tlb_vaddr_to_host(CPUArchState *env, abi_ptr addr, MMUAccessType access_type, int mmu_idx)
{
#ifdef TARGET_ZEROED_BLOCK
    if (unlikely(WATCHED(env_cpu(env)) != NULL) && access_type == MMU_DATA_STORE) {
        ENGINE = env->uc;
        size_t size = TARGET_ZEROED_BLOCK(env);
        struct trapline_access access = {.address = addr, .size = size, .is_store = true};
        struct trapline_blocks *blocks = WATCHED(env_cpu(env))->blocks;
        struct trapline_block *block = &blocks->all[blocks->newest % BLOCKS];
        uintptr_t index = tlb_index(env, mmu_idx, addr);
        /* The helper asks again after it has stored its first bytes. */
        bool asks_again = block->size == size && block->start == addr && block->host_pc != 0 && block->is_store;
        /* Without an entry the helper would store a byte to get one. If that will fault, nothing begins here. */
        bool is_there = tlb_hit(uc, tlb_addr_write(tlb_entry(env, mmu_idx, addr)), addr) || VICTIM_TLB_HIT(addr_write, addr)
            || env_cpu(env)->cc->tlb_fill(env_cpu(env), addr, 1, MMU_DATA_STORE, mmu_idx, true, 0);
        if (is_there && !asks_again && is_flagged(env, addr, size, mmu_idx, true)
            && find(WATCHED(env_cpu(env)), env, mmu_idx, &access)) {
            begin_block(env, addr, size, mmu_idx, true, true, 0);
        }
    }
#endif
    return library_host(env, addr, access_type, mmu_idx);
}

static bool page_is_watched(const struct trapline_watched *watched, uint64_t page, uint64_t physical, uint64_t size, bool is_store)
{
    for (uint64_t at = 0; at < size; at += SMALL) {
        const struct trapline_row *row = row_of(watched, (page + at) >> SMALL_BITS);
        const struct trapline_row *other = row_of(watched, (physical + at) >> SMALL_BITS | PHYSICAL);
        if ((row != NULL && row->pieces[is_store]) || (other != NULL && other->pieces[is_store])) {
            return true;
        }
    }
    return false;
}

/* A word of a TLB entry with TLB_WATCHPOINT set or cleared. A word that allows no access stays as it is. */
static target_ulong
flagged(ENGINE, const struct trapline_watched *watched, target_ulong word, uint64_t physical, bool is_store)
{
    if (word == (target_ulong)-1) {
        return word;
    }
    if (watched != NULL
        && (page_is_watched(watched, word & TARGET_PAGE_MASK, physical, TARGET_PAGE_SIZE, is_store)
            || target_watches_page(uc->cpu->env_ptr, word & TARGET_PAGE_MASK, TARGET_PAGE_SIZE, is_store))) {
        return word | TLB_WATCHPOINT;
    }
    return word & ~(target_ulong)TLB_WATCHPOINT;
}

static void flag_entry(ENGINE, const struct trapline_watched *watched, CPUTLBEntry *entry)
{
    entry->addr_read = flagged(uc, watched, entry->addr_read, entry->paddr, false);
    entry->addr_write = flagged(uc, watched, entry->addr_write, entry->paddr, true);
}

void TRAPLINE_FLAG(CPUState *cpu, vaddr address, int mode)
{
    CPUArchState *env = cpu->env_ptr;
    if (WATCHED(cpu) != NULL) {
        flag_entry(cpu->uc, WATCHED(cpu), tlb_entry(env, mode, address));
    }
}

void TRAPLINE_WATCH(CPUState *cpu, const struct trapline_watched *watched)
{
    CPUTLB *all = env_tlb((CPUArchState *)cpu->env_ptr);

    WATCHED(cpu) = watched;
    for (int mode = 0; mode < NB_MMU_MODES; mode++) {
        size_t many = tlb_n_entries(&all->f[mode]);
        for (size_t number = 0; number < many; number++) {
            flag_entry(cpu->uc, watched, &all->f[mode].table[number]);
        }
        for (size_t number = 0; number < CPU_VTLB_SIZE; number++) {
            flag_entry(cpu->uc, watched, &all->d[mode].vtable[number]);
        }
    }
}
