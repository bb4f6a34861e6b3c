/*
 * Keeps global pages across a change of address space on x86 (docs/unicorn.md, "Global pages across address spaces"). A
 * part of loop.c.
 *
 * A new CR3 makes Unicorn flush the whole TLB, and with it the table of blocks. But while CR4.PGE is set, pages that
 * the guest's tables mark as global, a kernel's own, must stay valid: only INVLPG for the page and a change of CR4
 * flush those. So the private pages of each mode are noted when their entries are filled, and only they are flushed.
 * The places of blocks in global pages in Unicorn's table are noted, too, and restored afterwards.
 */
#include "exec/tb-hash.h"

enum { MOST_PRIVATE = 256 };

struct target_memory {
    /* The value of `times_forgotten` when this was cleared; the entries are valid until that changes. */
    uint64_t forgotten;
    TranslationBlock *blocks[TB_JMP_CACHE_SIZE];
    /* The pages of each mode that were filled and are not global, as many as fit. */
    target_ulong pages[NB_MMU_MODES][MOST_PRIVATE];
    unsigned many[NB_MMU_MODES];
};


/* A number that changes with every flush of Unicorn's, except one of a single page. */
static uint64_t times_forgotten(CPUX86State *env)
{
    const CPUTLBCommon *all = &env_tlb(env)->c;
    const TCGContext *s = env->uc->tcg_ctx;
    return (uint64_t)all->full_flush_count + all->part_flush_count + all->elide_flush_count + s->tb_phys_invalidate_count
           + s->tb_ctx.tb_flush_count;
}

/* Called before a TLB entry is filled. Notes the page as private; `note_row` corrects that once the walk knows better. */
static void target_before_fill(CPUState *cpu, target_ulong address, int mode)
{
    struct target_memory *noted = target_memory_of(cpu->uc);
    if (noted) {
        unsigned number = noted->many[mode]++;
        if (number < MOST_PRIVATE) {
            noted->pages[mode][number] = address & TARGET_PAGE_MASK;
        }
    }
}

/*
 * Called once the page's attributes are known. A global page is removed from the notes. A large user page makes the next CR3
 * load flush the whole mode: Unicorn has one range for all large pages, which would then reach from the user's to the
 * kernel's, and each INVLPG in it would flush the mode.
 */
static void note_row(CPUState *cpu, bool is_global, bool is_large, int mode)
{
    struct target_memory *noted = target_memory_of(cpu->uc);
    if (noted && is_global) {
        noted->many[mode]--;
    } else if (noted && is_large) {
        noted->many[mode] = MOST_PRIVATE + 1;
    }
}

static bool is_global(const CPUIOTLBEntry *device)
{
    return device->attrs.target_tlb_bit0;
}

static bool is_in_global_page(CPUX86State *env, target_ulong pc)
{
    int mode = cpu_mmu_index(env, true);
    return tlb_entry(env, mode, pc)->addr_code == (pc & TARGET_PAGE_MASK) && is_global(&env_tlb(env)->d[mode].iotlb[tlb_index(env, mode, pc)]);
}

/* Notes the place in Unicorn's table of a block that lies in one page. A program's blocks are left out: hardly any
   is in a global page. */
static void target_block_found(CPUX86State *env, unsigned place, TranslationBlock *block)
{
    struct target_memory *noted = target_memory_of(env->uc);

    if (noted->blocks[place] == block || (env->hflags & HF_CPL_MASK) == 3) {
        return;
    }
    if (noted->forgotten != times_forgotten(env)) {
        memset(noted->blocks, 0, sizeof(noted->blocks));
        noted->forgotten = times_forgotten(env);
    }
    if (is_in_global_page(env, block->pc)) {
        noted->blocks[place] = block;
    }
}

static void forget_private(struct target_memory *noted, CPUX86State *env, int mode)
{
    CPUTLBDesc *pages = &env_tlb(env)->d[mode];
    CPUTLBDescFast *table = &env_tlb(env)->f[mode];

    for (unsigned number = 0; number < noted->many[mode]; number++) {
        target_ulong page = noted->pages[mode][number];
        size_t index = page >> TARGET_PAGE_BITS & table->mask >> CPU_TLB_ENTRY_BITS;
        CPUTLBEntry *entry = &table->table[index];
        if (!is_empty(entry) && page_of(env->uc, entry) == page && !is_global(&pages->iotlb[index])) {
            memset(entry, -1, sizeof(*entry));
            pages->n_used_entries--;
        }
    }
    /* Victim entries are not in the count: Unicorn subtracted them when they moved here. */
    for (size_t number = 0; number < CPU_VTLB_SIZE; number++) {
        if (!is_empty(&pages->vtable[number]) && !is_global(&pages->viotlb[number])) {
            memset(&pages->vtable[number], -1, sizeof(CPUTLBEntry));
        }
    }
}

/* Replaces Unicorn's helper for writes to control registers. */
static void write_control(CPUX86State *env, int number, target_ulong value)
{
    CPUState *cpu = env_cpu(env);
    struct target_memory *noted = target_memory_of(env->uc);
    uint16_t whole = 0;

    if (number != 3 || !(env->cr[4] & CR4_PGE_MASK) || !(env->cr[0] & CR0_PG_MASK) || env->hflags & HF_GUEST_MASK || noted == NULL) {
        count_again(cpu);
        HELPER(write_crN)(env, number, value);
        HERE;
        return;
    }
    env->cr[3] = value;
    if (noted->forgotten != times_forgotten(env)) {
        memset(noted->blocks, 0, sizeof(noted->blocks));
    }
    for (int mode = 0; mode < NB_MMU_MODES; mode++) {
        if (noted->many[mode] > MOST_PRIVATE) {
            whole |= 1 << mode;
        } else {
            forget_private(noted, env, mode);
        }
        noted->many[mode] = 0;
    }
    if (whole) {
        count_again(cpu);
        tlb_flush_by_mmuidx(cpu, whole);
    }
    memcpy(cpu->tb_jmp_cache, noted->blocks, sizeof(noted->blocks));
    noted->forgotten = times_forgotten(env);
}

/* Replaces Unicorn's helper for INVLPG. */
static void forget_page(CPUX86State *env, target_ulong address)
{
    struct target_memory *noted = target_memory_of(env->uc);
    const target_ulong page = address & TARGET_PAGE_MASK;

    if (noted) {
        for (int mode = 0; mode < NB_MMU_MODES; mode++) {
            const CPUTLBDesc *pages = &env_tlb(env)->d[mode];
            if ((page & pages->large_page_mask) == pages->large_page_addr) {
                memset(noted->blocks, 0, sizeof(noted->blocks));
            }
        }
        /* Unicorn does this with its own table, too: a block that begins in the page before may reach into this one. */
        memset(&noted->blocks[tb_jmp_cache_hash_page(env->uc, page)], 0, TB_JMP_PAGE_SIZE * sizeof(*noted->blocks));
        memset(&noted->blocks[tb_jmp_cache_hash_page(env->uc, page - TARGET_PAGE_SIZE)], 0, TB_JMP_PAGE_SIZE * sizeof(*noted->blocks));
    }
    HELPER(invlpg)(env, address);
    HERE;
}

static void target_forget_blocks(CPUState *cpu)
{
    struct target_memory *noted = target_memory_of(cpu->uc);

    if (noted) {
        memset(noted->blocks, 0, sizeof(noted->blocks));
    }
}
#define target_forget_blocks target_forget_blocks
#define target_memory target_memory
#define target_before_fill target_before_fill
#define target_block_found target_block_found

static void target_hide_marks(MemTxAttrs *attributes)
{
    attributes->target_tlb_bit0 = 0;
}
#define target_hide_marks target_hide_marks
