/* Compares the guest's own debug registers with what is in force (break_sets.h). Part of loop.c. */

static inline struct break_sets *break_sets_of(struct trapline_machine *machine)
{
    return &machine->found->break_sets;
}

static inline bool ask_for_break(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, void *meet)
{
    if (likely(!has_breaks(db->tb)) || !is_break(db->tb, break_sets_of(machine), db->pc_next)) {
        return true;
    }
    if (db->num_insns > 1) {
        return false;
    }
    if (meet != NULL) {
        call_with_machine(s, meet, "meet_break", machine, db->pc_next, 0);
    }
    return true;
}

/* Selects the blocks of this set. The tables of blocks may have blocks of another one. */
static void use_break_set(CPUState *cpu, struct trapline_machine *machine, int number)
{
    if (cpu->cluster_index != number) {
        cpu->cluster_index = number;
        memset(cpu->tb_jmp_cache, 0, sizeof(cpu->tb_jmp_cache));
        memset(machine->found->rows, 0, sizeof(machine->found->rows));
        target_forget_blocks(cpu);
    }
}

static inline void follow_debug_registers(CPUState *cpu)
{
    struct trapline_machine *machine = machine_of(cpu->uc);
    struct break_set breaks = {.count = 0};
    bool watches = target_watches(cpu);

    if (machine == NULL) {
        return;
    }
    target_breaks(cpu, &breaks);
    use_break_set(cpu, machine, breaks.count == 0 ? UNASSIGNED_CLUSTER_INDEX : (int)break_set_of(break_sets_of(machine), &breaks));
    if (watches || *DEBUG_WATCHES(cpu)) {
        *DEBUG_WATCHES(cpu) = watches;
        machine->watches_own(machine, watches);
    }
}
