/*
 * The machine that an engine belongs to, as translated code and helpers see it. Part of loop.c: every other part uses it.
 */

/* The block callback's user data begins with this (unicorn/engine.rs). */
struct trapline_machine {
    /* Whether the block callback must be called at every execution of the block at this address. */
    bool (*always_wants)(struct trapline_machine *machine, uint64_t pc);
    /* Whether the machine answers reads and writes of this system register. */
    bool (*answers)(struct trapline_machine *machine, uint32_t reg);
    /* The instruction at the pc reads or writes a register, given by its number in the instruction set. False: the
       register is not the machine's. */
    bool (*register_in)(struct trapline_machine *machine, uint32_t number, uint64_t *value);
    bool (*register_out)(struct trapline_machine *machine, uint32_t number, uint64_t value);
    /* The guest waits for another CPU in a loop. The pc is behind the instruction. */
    void (*pauses)(struct trapline_machine *machine);
    /* Memory for jumps.h, zero at first. Nobody else writes it. */
    struct found *found;
    /* Whether every instruction is translated as a block of its own. All code is dropped when it changes. */
    bool one_by_one;
    /* The probed instructions of a page of code, see points.h. `pc` is an address in it. NULL: no program is probed. */
    const uint32_t *(*points)(struct trapline_machine *machine, const uint8_t *page, uint64_t pc);
    /* The CPU is about to run a probed instruction. */
    void (*user_hit)(struct trapline_machine *machine, uint64_t pc, uint64_t number);
    /* Called in front of every load and store of translated code, with the number of bytes and, in bit 8, whether it is a
       store (each_access.h). NULL: no calls. All code is dropped when it changes. */
    void (*each_access)(struct trapline_machine *machine, uint64_t address, uint64_t kind, uint64_t pc);
    /* Whether the address is in the probe window, where the guest has no code. */
    bool (*is_window)(struct trapline_machine *machine, uint64_t pc);
    /* Whether a block must end in front of this address. NULL: never. */
    bool (*breaks_at)(struct trapline_machine *machine, uint64_t pc);
    /* The guest's own debug registers begin or cease to watch memory. */
    void (*watches_own)(struct trapline_machine *machine, bool watches);
};

/* NULL: an engine without a block callback belongs to no machine. */
static struct trapline_machine *machine_of(struct uc_struct *uc)
{
    struct list_item *first = uc->hook[UC_HOOK_BLOCK_IDX].head;
    return first ? ((struct hook *)first->data)->user_data : NULL;
}

/* Offset from the architectural state, which is how translated code addresses all of the CPU. */
#define FROM_STATE(field) ((long)(field) - (long)offsetof(ArchCPU, env))

/* An entry of Unicorn's table of helpers. */
struct helper {
    void *function;
    const char *name;
    unsigned flags;
    unsigned arguments;
};

/* Registers a function of ours as a helper, so that translated code may call it. */
static void know(TCGContext *s, void *function, const char *name, unsigned flags, unsigned arguments)
{
    if (g_hash_table_lookup(s->helper_table, function) == NULL) {
        struct helper *own = g_malloc(sizeof(*own));
        *own = (struct helper){function, g_strdup(name), flags, arguments};
        g_hash_table_insert(s->helper_table, function, own);
        /* The second table frees the entry with the engine. */
        g_hash_table_insert(s->custom_helper_infos, function, own);
    }
}

/* Emits a call of `function(env, machine, pc, number)`. */
static inline void call_with_machine(TCGContext *s, void *function, const char *name, struct trapline_machine *machine, uint64_t pc, uint64_t number)
{
    TCGv_i64 arguments[3];
    TCGTemp *all[4];

    know(s, function, name, 0,
         dh_sizemask(void, 0) | dh_sizemask(env, 1) | dh_sizemask(i64, 2) | dh_sizemask(i64, 3) | dh_sizemask(i64, 4));
    arguments[0] = tcg_const_i64(s, (uintptr_t)machine);
    arguments[1] = tcg_const_i64(s, pc);
    arguments[2] = tcg_const_i64(s, number);
    all[0] = tcgv_ptr_temp(s, s->cpu_env);
    for (int n = 0; n < 3; n++) {
        all[n + 1] = tcgv_i64_temp(s, arguments[n]);
    }
    tcg_gen_callN(s, function, NULL, 4, all);
    for (int n = 0; n < 3; n++) {
        tcg_temp_free_i64(s, arguments[n]);
    }
}

/* Reports an exception to the machine's interrupt callback, or to its callback for invalid instructions. */
static inline void tell(CPUState *cpu, uint32_t number)
{
    struct uc_struct *uc = cpu->uc;

    if (uc->stop_interrupt && uc->stop_interrupt(uc, number)) {
        struct hook *hook = uc->hook[UC_HOOK_INSN_INVALID_IDX].head->data;
        ((uc_cb_hookinsn_invalid_t)hook->callback)(uc, hook->user_data);
    } else {
        struct hook *hook = uc->hook[UC_HOOK_INTR_IDX].head->data;
        ((uc_cb_hookintr_t)hook->callback)(uc, number, hook->user_data);
    }
}

/* Prevents a tail call: a helper finds the translated code that called it by its return address. */
#define HERE __asm__ volatile("" ::: "memory")
