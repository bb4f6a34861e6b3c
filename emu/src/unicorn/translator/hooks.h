/*
 * The types and functions of loop.c that a kind of CPU may use in its own file, <cpu>/hooks.h. Part of loop.c.
 *
 * The build passes the path of <cpu>/hooks.h as TRAPLINE_HOOKS (build/translator.rs). That file may define any function
 * of defaults.h, and then also a macro of that name, so that the default is left out. No other part names a CPU.
 */

/* A helper of Unicorn's, and the function of ours that translated code calls instead. */
struct instead {
    void *helper;
    void *ours;
    /* The helper raises an exception and does not return; ours reports it and returns. */
    bool raises;
};

/* The result of `target_translate`: who translates the next instruction. */
enum translated {
    /* Nothing, or it emitted code in front: Unicorn's translator goes on. */
    BY_THE_LIBRARY,
    /* All of it, `pc_next` included. `is_jmp` says whether the block goes on. */
    BY_US,
    /* Nothing: the instruction must be the first of a block. */
    IN_NEXT_BLOCK,
};

/* The code of the block at the CPU's pc, or the way out of translated code (jumps.h). */
static void *look_up(CPUArchState *env);
/* Replaces exits to Unicorn's loop by a look-up of the next block (calls.h). */
static inline void stay(TCGContext *s);
/* Moves the operations behind `last` to behind `op` (jumps.h). */
static void move_behind(TCGContext *s, TCGOp *op, TCGOp *last);
/* The largest number of page-table entries that one walk reads (`target_rows`). */
enum { MOST_ROWS = 8 };
/* The sets of breakpoints of the guest's own debug registers (break_sets.h). */
static inline struct break_sets *break_sets_of(struct trapline_machine *machine);
/* Emits a call of `meet(env, machine, pc, 0)` in front of the next instruction if that is at a breakpoint; with NULL, no call.
   False: the instruction must be the first of a block. */
static inline bool ask_for_break(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, void *meet);
/* To be called after the guest has written such a register. */
static inline void follow_debug_registers(CPUState *cpu);
/* The memory that this kind of CPU has in the machine's `struct found`. NULL if the engine belongs to no machine. */
struct target_memory;
static inline struct target_memory *target_memory_of(struct uc_struct *uc);
