/*
 * 64-bit PowerPC (docs/unicorn.md, "PowerPC"). Part of loop.c; defaults.h says what each hook is for.
 */
#include "../ppc/answers.h"
#include "radix.h"

/*
 * Stands in for `helper_load_purr` and `helper_load_vtb` of timebase_helper.c, 2.1.5, which follow a null pointer because
 * Unicorn has no clock. The machine has just been asked (`answer_before`).
 */
static target_ulong read_time(CPUPPCState *env)
{
    return env->spr[SPR_VTBL];
}

/* Stands in for `helper_darn32` of int_helper.c, 2.1.5, which asks the host. */
static target_ulong random_32(void)
{
    return (uint32_t)drawn;
}

/* Stands in for `helper_darn64` of int_helper.c, 2.1.5, which asks the host. */
static target_ulong random_64(void)
{
    return drawn;
}

/* Stands in for `helper_load_hdecr` of timebase_helper.c, 2.1.5. The hypervisor's decrementer never expires. */
static target_ulong read_far_away(CPUPPCState *env)
{
    return INT32_MAX;
}

/*
 * Stands in for several helpers of 2.1.5: writes of clocks whose value nobody reads; messages to other hardware threads,
 * which Unicorn writes past the end of the state; and the partition's number (LPIDR), which must stay 0, because Unicorn
 * ends the process at any other.
 */
static void ignore(CPUPPCState *env, target_ulong value)
{
}

/*
 * Stands in for `helper_store_lpcr` of mmu-hash64.c, 2.1.5. UPRT without HR asks for segment tables in memory, which Unicorn
 * does not have: it would end the process at the first SLB miss. Without UPRT the miss is the guest's exception.
 */
static void write_lpcr(CPUPPCState *env, target_ulong value)
{
    HELPER(store_lpcr)(env, value & LPCR_HR ? value : value & ~(target_ulong)LPCR_UPRT);
}

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(darn32), random_32, false },
    { HELPER(darn64), random_64, false },
    { HELPER(load_purr), read_time, false },
    { HELPER(load_vtb), read_time, false },
    { HELPER(load_hdecr), read_far_away, false },
    { HELPER(store_purr), ignore, false },
    { HELPER(store_vtb), ignore, false },
    { HELPER(store_hdecr), ignore, false },
    { HELPER(store_tbu40), ignore, false },
    { HELPER(store_dpdes), ignore, false },
    { HELPER(store_lpcr), write_lpcr, false },
    { HELPER(store_lpidr), ignore, false },
    { HELPER(book3s_msgsnd), ignore, false },
    { HELPER(book3s_msgsndp), ignore, false },
    { NULL, NULL, false },
};
#define target_instead target_instead

/* `or rx,rx,rx`: a hint that sets the thread's priority. */
#define IS_HINT(word) (((word) & 0xfc0007ff) == 0x7c000378)

/* The thread priority that `or rx,rx,rx` sets, by the number of rx. 0: it sets none, or only the kernel may set this one. */
static unsigned priority(CPUPPCState *env, unsigned register_number)
{
    static const uint8_t everybodys[32] = {[1] = 2, [6] = 3, [2] = 4}, kernels[32] = {[31] = 1, [5] = 5, [3] = 6, [7] = 7};
    return everybodys[register_number] ? everybodys[register_number] : msr_pr ? 0 : kernels[register_number];
}

/* Translates a hint: it sets the priority in PPR. Unicorn would end the run at some of these hints. */
static void hint(TCGContext *s, CPUPPCState *env, unsigned register_number)
{
    unsigned new = priority(env, register_number);
    TCGv_i64 all;

    if (new) {
        all = tcg_temp_new_i64(s);
        tcg_gen_ld_i64(s, all, s->cpu_env, offsetof(CPUPPCState, spr[SPR_PPR]));
        tcg_gen_andi_i64(s, all, all, ~UINT64_C(0x001c000000000000));
        tcg_gen_ori_i64(s, all, all, (uint64_t)new << 50);
        tcg_gen_st_i64(s, all, s->cpu_env, offsetof(CPUPPCState, spr[SPR_PPR]));
        tcg_temp_free_i64(s, all);
    }
}

/* `b`: a branch that is always taken, to an address relative to its own, without a link. */
enum { BRANCH_MASK = 0xfc000003, BRANCH = 0x48000000, DISTANCE_TOP = 0x02000000, DISTANCE = 0x03fffffc };
/* `blr`, the instruction of the return pad that continues at the true return address. */
enum { RETURN = 0x4e800020 };

/* Whether a branch is the engine's: it stands in the probe window or leads there. */
static bool is_unseen(struct trapline_machine *machine, uint64_t pc, uint32_t word)
{
    uint64_t distance = ((word & DISTANCE) ^ DISTANCE_TOP) - (uint64_t)DISTANCE_TOP;

    if ((word & BRANCH_MASK) == BRANCH) {
        return machine->is_window(machine, pc) || machine->is_window(machine, pc + distance);
    }
    return word == RETURN && machine->is_window(machine, pc);
}

/* Whether an operation sets CFAR, a variable of translated code that Unicorn's translator declares and does not show. */
static bool sets_last_branch(const TCGOp *op)
{
    const TCGTemp *set = op->opc == INDEX_op_movi_i64 ? arg_temp(op->args[0]) : NULL;

    return set != NULL && set->temp_global && set->name != NULL && strcmp(set->name, "cfar") == 0;
}

/*
 * Translates a branch that the engine wrote, as Unicorn does, but without the write of CFAR. CFAR is the address of the
 * last taken branch. Linux saves it at each exception, so a run with probes would otherwise differ in memory. False: it is
 * another instruction, and nothing was emitted.
 */
static bool unseen_branch(TCGContext *s, const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu,
                          struct trapline_machine *machine, uint32_t word)
{
    TCGOp *before = tcg_last_op(s), *op, *next;

    if (!is_unseen(machine, db->pc_next, word)) {
        return false;
    }
    ops->translate_insn(db, cpu);
    for (op = before ? QTAILQ_NEXT(before, link) : QTAILQ_FIRST(&s->ops); op != NULL; op = next) {
        next = QTAILQ_NEXT(op, link);
        if (sets_last_branch(op)) {
            tcg_op_remove(s, op);
        }
    }
    return true;
}

static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    TCGContext *s = cpu->uc->tcg_ctx;
    CPUPPCState *env = cpu->env_ptr;
    uint32_t word = next_word(db, cpu), named = word >> 21 & 31;

    if (unseen_branch(s, ops, db, cpu, machine, word)) {
        return BY_US;
    }
    /* Unicorn itself ends a stepped instruction. */
    if (ask_before(s, machine, db, word) || msr_se || msr_be) {
        return BY_THE_LIBRARY;
    }
    if (!IS_HINT(word) || named == 0 || named != (word >> 16 & 31) || named != (word >> 11 & 31)) {
        return BY_THE_LIBRARY;
    }
    hint(s, env, named);
    db->pc_next += INSTRUCTION_BYTES;
    return BY_US;
}
#define target_translate target_translate
