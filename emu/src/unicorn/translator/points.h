/*
 * Probed instructions of user programs (docs/unicorn.md, "Probes in user programs"). A part of loop.c.
 *
 * The machine says for each page of code which of its instructions are probed. A block ends in front of such an
 * instruction, and the block that begins there calls the machine first. Nothing is written to the guest's memory, and
 * the end of a block without a branch is no place where the machine takes an interrupt: the run stays the same.
 */

/* The page size of `machine->points`. No guest has smaller pages. */
#define POINTS_PAGE UINT64_C(4096)

/* The probed instructions of one page of code, cached during the translation of a block. */
struct points {
    bool is_known;
    uint64_t page;
    /* The number of entries; each is an offset in the page, followed by the number of the point. NULL: none. */
    const uint32_t *list;
};

/* Asks the machine for the points of the page at `pc`. A page without RAM has none. */
static void look_up_points(struct points *points, CPUState *cpu, struct trapline_machine *machine, uint64_t pc)
{
    void *host = NULL;

    *points = (struct points){true, pc & ~(POINTS_PAGE - 1), NULL};
    if (get_page_addr_code_hostp(cpu->env_ptr, pc, &host) != (tb_page_addr_t)-1 && host != NULL) {
        uintptr_t page = (uintptr_t)host & ~(uintptr_t)(POINTS_PAGE - 1);
        points->list = machine->points(machine, (const uint8_t *)page, pc);
    }
}

/* The list of the page in which this address lies. */
static const uint32_t *points_of(struct points *points, CPUState *cpu, struct trapline_machine *machine, uint64_t pc)
{
    if (!points->is_known || points->page != (pc & ~(POINTS_PAGE - 1))) {
        look_up_points(points, cpu, machine, pc);
    }
    return points->list;
}

/* Whether a block that is being translated must end in front of this address. */
static bool is_point(struct points *points, CPUState *cpu, struct trapline_machine *machine, uint64_t pc)
{
    const uint32_t *list = points_of(points, cpu, machine, pc);

    if (list != NULL) {
        for (uint32_t n = 0; n < list[0]; n++) {
            if (list[1 + 2 * n] == (pc & (POINTS_PAGE - 1))) {
                return true;
            }
        }
    }
    return false;
}

/* Called by translated code at the start of a block at a probed instruction. */
static void user_hit(CPUArchState *env, uint64_t machine, uint64_t pc, uint64_t number)
{
    struct trapline_machine *from = (struct trapline_machine *)(uintptr_t)machine;

    from->user_hit(from, pc, number);
}

/* Emits the calls of the points at the start of a block. */
static void call_points(TCGContext *s, struct points *points, CPUState *cpu, struct trapline_machine *machine, const TranslationBlock *tb)
{
    uint64_t pc = tb->pc;
    const uint32_t *list = points_of(points, cpu, machine, pc);

    if (list != NULL) {
        for (uint32_t n = 0; n < list[0]; n++) {
            if (list[1 + 2 * n] == (pc & (POINTS_PAGE - 1))) {
                target_before_callback(s, tb);
                call_with_machine(s, user_hit, "user_hit", machine, pc, list[2 + 2 * n]);
            }
        }
    }
}
