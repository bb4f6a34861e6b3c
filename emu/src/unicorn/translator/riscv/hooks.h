/*
 * RISC-V, both widths (docs/unicorn.md, "RISC-V"). Part of loop.c; defaults.h says what each hook is for.
 */
#include "own.h"
#include "csr.h"
#include "walk.h"
#include "fences.h"

/* The pc's offset in the state. With it jumps.h finds jumps to constant addresses and caches their targets. */
#define TARGET_PC_AT offsetof(CPURISCVState, pc)

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(raise_exception), except, true },
    { HELPER(csrrw), exchange_csr, false },
    { HELPER(csrrs), set_in_csr, false },
    { HELPER(csrrc), clear_in_csr, false },
    { NULL, NULL, false },
};
#define target_instead target_instead

static bool is_full_length(uint16_t half)
{
    return (half & 3) == 3;
}

/* `auipc` and `jalr x0`. The register that `auipc` writes and `jalr` reads is named at different places of the words
   (DESTINATION, SOURCE). */
enum { AUIPC = 0x17, JUMP = 0x67, DESTINATION = 7, JUMP_MASK = 0x7fff, PAIR_BYTES = 2 * FULL };

/*
 * Whether the two instructions at the pc are a far jump that the probe engine wrote, into the probe window or out of it:
 * `auipc` and `jalr x0` through a dead register. Writes the jump's target.
 */
static bool far_jump(CPUState *cpu, struct trapline_machine *machine, uint64_t pc, target_ulong *target)
{
    CPURISCVState *env = cpu->env_ptr;
    uint32_t first, second, through;

    if ((half_at(cpu, pc) & OPCODE) != AUIPC || !code_word(env, pc, &first) || !code_word(env, pc + FULL, &second)) {
        return false;
    }
    through = first >> DESTINATION & REGISTER;
    if (through == 0 || (second & JUMP_MASK) != JUMP || (second >> SOURCE & REGISTER) != through) {
        return false;
    }
    *target = ((target_ulong)pc + (target_ulong)(target_long)(int32_t)(first & ~0xfffu) + (target_ulong)((int32_t)second >> 20))
              & ~(target_ulong)1;
    return machine->is_window(machine, *target) || machine->is_window(machine, pc);
}

/*
 * A far jump of a detour is translated as one instruction that leaves its register as it is. Even a dead register ends up in
 * memory: Linux saves all registers at an interrupt, and a run with probes must leave the same memory as one without.
 */
static enum translated jump_far(TCGContext *s, DisasContextBase *db, target_ulong target)
{
    bool reaches_next_page = (db->pc_next & ~TARGET_PAGE_MASK) > TARGET_PAGE_SIZE - PAIR_BYTES;

    if (reaches_next_page && db->num_insns > 1) {
        return IN_NEXT_BLOCK;
    }
    tcg_gen_movi_tl(s, s->cpu_pc, target);
    tcg_gen_lookup_and_goto_ptr(s);
    db->pc_next += PAIR_BYTES;
    db->is_jmp = DISAS_NORETURN;
    return BY_US;
}

/*
 * Unicorn fetches the second half of an instruction when it translates the block. If that half lies in a page that is
 * missing, the exception comes with the pc of the block. So such an instruction begins a block of its own.
 */
static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    bool reaches_next_page = (db->pc_next & ~TARGET_PAGE_MASK) == TARGET_PAGE_SIZE - COMPRESSED && is_full_length(half_at(cpu, db->pc_next));
    target_ulong target;

    if (far_jump(cpu, machine, db->pc_next, &target)) {
        return jump_far(cpu->uc->tcg_ctx, db, target);
    }
    if (!(reaches_next_page && db->num_insns > 1) && fence_by_us(cpu, machine, db)) {
        return BY_US;
    }
    return reaches_next_page && db->num_insns > 1 ? IN_NEXT_BLOCK : BY_THE_LIBRARY;
}
#define target_translate target_translate

/* wfi, in two halves. */
enum { WAIT_LOW = 0x0073, WAIT_HIGH = 0x1050 };

/*
 * Behind wfi Unicorn translates on, though the run ends there: the clock would count code that does not run. So wfi ends
 * its block.
 *
 * Unicorn leaves some invalid instructions out of the block's bytes. A write to such an instruction would then not drop
 * the block. So its length is added.
 */
static void target_after_instruction(DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine, uint64_t pc)
{
    if (db->is_jmp == DISAS_NORETURN && db->pc_next == pc) {
        db->pc_next += is_full_length(half_at(cpu, pc)) ? FULL : COMPRESSED;
    }
    if (db->is_jmp == DISAS_NEXT && half_at(cpu, pc) == WAIT_LOW && half_at(cpu, pc + COMPRESSED) == WAIT_HIGH) {
        db->is_jmp = DISAS_TOO_MANY;
    }
}
#define target_after_instruction target_after_instruction

static void target_after_block(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
    stay(s);
}
#define target_after_block target_after_block
