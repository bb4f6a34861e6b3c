/*
 * The guest's own debug registers (docs/unicorn.md, "The guest's debug registers"). Part of loop.c.
 *
 * A CPU's state has everything: nothing of the guest's breakpoints is kept elsewhere. `follow_debug_registers` compares the
 * state with what translated code and the TLB were made for, after each write of such a register and when another CPU's
 * state was loaded.
 *
 * For breakpoints, the addresses that are in force select a set of translated blocks, by the field of a block's flags that
 * Unicorn calls the cluster. A block of such a set ends in front of a breakpoint, and the block that begins there calls a
 * function first. No block is dropped when breakpoints change, and without breakpoints no block differs.
 *
 * For watchpoints, pages have TLB_WATCHPOINT (access.c).
 */

/* The largest number of breakpoints of a CPU, and of sets of them. In the set EVERY each instruction is a block that makes
   the call, for a guest that has used up all other numbers. */
enum { MOST_BREAKS = 16, BREAK_SETS = 250, EVERY = BREAK_SETS };

/* The cluster of blocks without breakpoints. */
#define NO_BREAKS (UNASSIGNED_CLUSTER_INDEX & 0xff)

struct break_set {
    unsigned count;
    uint64_t at[MOST_BREAKS];
};

struct break_sets {
    unsigned used;
    struct break_set all[BREAK_SETS];
};

/* The number of the set of these addresses. */
static inline unsigned break_set_of(struct break_sets *sets, const struct break_set *wanted)
{
    for (unsigned number = 0; number < sets->used; number++) {
        const struct break_set *set = &sets->all[number];
        if (set->count == wanted->count && memcmp(set->at, wanted->at, wanted->count * sizeof(wanted->at[0])) == 0) {
            return number;
        }
    }
    if (sets->used == BREAK_SETS) {
        return EVERY;
    }
    sets->all[sets->used] = *wanted;
    return sets->used++;
}

/* Whether the block belongs to a set of breakpoints. */
static inline bool has_breaks(const TranslationBlock *tb)
{
    return tb_cflags(tb) >> CF_CLUSTER_SHIFT != NO_BREAKS;
}

/* Whether the guest has a breakpoint at this address, for translations of the block's set. */
static inline bool is_break(const TranslationBlock *tb, struct break_sets *sets, uint64_t pc)
{
    unsigned number = tb_cflags(tb) >> CF_CLUSTER_SHIFT;

    if (number == NO_BREAKS || number >= EVERY) {
        return number == EVERY;
    }
    for (unsigned n = 0; n < sets->all[number].count; n++) {
        if (sets->all[number].at[n] == pc) {
            return true;
        }
    }
    return false;
}
