/*
 * The defaults of all hooks, for kinds of CPU that do not define them (hooks.h). The comments say when loop.c calls each
 * hook. Part of loop.c.
 */

#ifndef target_memory
/* Data that a kind of CPU keeps for each machine, zeroed at first (`target_memory_of`). */
struct target_memory {};
#endif

#ifndef target_instead
/* The helpers that translated code must not call, and what it calls instead. The last row has NULL. */
static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { NULL, NULL, false },
};
#endif

#ifndef target_make_ready
/* Initializes the parts of a new engine that Unicorn leaves uninitialized. Called once, after its RAM was mapped. */
static void target_make_ready(struct uc_struct *uc)
{
}
#endif

#ifndef target_beside_bytes
/* The number of bytes of CPU state that Unicorn does not save with the rest. The two functions below copy them. */
static size_t target_beside_bytes(CPUState *cpu)
{
    return 0;
}

static void target_save_beside(CPUState *cpu, void *to)
{
}

static void target_load_beside(CPUState *cpu, const void *from)
{
}
#endif

#ifndef target_walk
/* A page-table walk in host memory (walk.h). True: it has filled the TLB entry. False: nothing has changed, and Unicorn
   must walk. */
static bool target_walk(CPUState *cpu, vaddr address, int access, int mode)
{
    return false;
}
#endif

#ifndef target_rows
/* Writes the physical addresses of the page-table entries in which Unicorn's walk for this address may set accessed or
   dirty bits, at most MOST_ROWS. Returns their number. */
static unsigned target_rows(CPUState *cpu, vaddr address, uint64_t rows[])
{
    return 0;
}
#endif

#ifndef target_before_fill
/* Called before the TLB entry of this address is filled. */
static void target_before_fill(CPUState *cpu, target_ulong address, int mode)
{
}
#endif

#ifndef target_block_found
/* Called when Unicorn's jump cache gets a block at this index. */
static void target_block_found(CPUArchState *env, unsigned place, TranslationBlock *block)
{
}
#endif

#ifndef target_hide_marks
/* Clears the attribute bits of a TLB entry that our walk sets and Unicorn's does not, before a test compares both. */
static void target_hide_marks(MemTxAttrs *attributes)
{
}
#endif

#ifndef target_is_part
/* Whether the block is a part of one instruction: it counts no time, and nothing stops in front of it. */
static bool target_is_part(const TranslationBlock *tb)
{
    return false;
}
#endif

/* Whether breakpoints of the guest's own debug registers are those of `target_breaks`, not those of Unicorn's list. */
#ifdef target_breaks
#define TARGET_HAS_BREAK_SETS true
#else
#define TARGET_HAS_BREAK_SETS false
#endif

#ifndef target_breaks
/* Writes the addresses at which the guest's own debug registers have a breakpoint in force. */
static void target_breaks(CPUState *cpu, struct break_set *breaks)
{
}
#endif

#ifndef target_watches
/* Whether the guest's own debug registers watch memory. */
static bool target_watches(CPUState *cpu)
{
    return false;
}
#endif

#ifndef target_forget_blocks
/* Called when the library's jump cache was cleared because another set of blocks is in force. */
static void target_forget_blocks(CPUState *cpu)
{
}
#endif

#ifndef target_ends_by_call
/* Whether the library's translator must call the helper that it has for `singlestep_enabled`, at the block's end. */
static bool target_ends_by_call(const TranslationBlock *tb)
{
    return false;
}
#endif

#ifndef target_begin
/* Called before each run. */
static void target_begin(CPUState *cpu)
{
}
#endif

#ifndef target_show
/* Writes the registers to where the machine reads them, if this CPU keeps them elsewhere while it runs. Called before a callback
   whose place is not the start of a block. */
static void target_show(CPUState *cpu)
{
}
#endif

#ifndef target_before_callback
/* Emits code that does this in front of a callback at the block's start. */
static void target_before_callback(TCGContext *s, const TranslationBlock *tb)
{
}
#endif

#ifndef target_before_block
/* Emits code in front of the block. May lower `max_insns`. */
static void target_before_block(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db)
{
}
#endif

#ifndef target_translate
/* Translates the instruction at `pc_next`, or leaves it to Unicorn. Only for a machine's engine. */
static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    return BY_THE_LIBRARY;
}
#endif

#ifndef target_after_instruction
/* Called after each instruction was translated. `pc` is its address. `machine` may be NULL. */
static void target_after_instruction(DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine, uint64_t pc)
{
}
#endif

#ifndef target_after_block
/* Changes the operations of a complete block. */
static void target_after_block(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
}
#endif
