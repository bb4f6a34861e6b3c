/*
 * RISC-V, both widths (docs/unicorn.md, "RISC-V"). Part of loop.c; defaults.h says what each hook is for.
 */
#include "own.h"
#include "csr.h"

/* The pc's offset, for jumps that remember where they led (jumps.h). */
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

enum { COMPRESSED = 2, FULL = 4 };

static uint16_t half_at(DisasContextBase *db, CPUState *cpu)
{
    return cpu_lduw_code(cpu->env_ptr, db->pc_next);
}

static bool is_full_length(uint16_t half)
{
    return (half & 3) == 3;
}

/*
 * The library fetches the second half of an instruction when it translates the block. If that half lies in a page that is
 * missing, the exception comes with the pc of the block. So such an instruction begins a block of its own.
 */
static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    bool reaches_next_page = (db->pc_next & ~TARGET_PAGE_MASK) == TARGET_PAGE_SIZE - COMPRESSED && is_full_length(half_at(db, cpu));

    return reaches_next_page && db->num_insns > 1 ? IN_NEXT_BLOCK : BY_THE_LIBRARY;
}
#define target_translate target_translate

/*
 * The library leaves some invalid instructions out of the block's bytes. A write to such an instruction would then not drop
 * the block. So its length is added.
 */
static void target_after_instruction(DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine, uint64_t pc)
{
    if (db->is_jmp == DISAS_NORETURN && db->pc_next == pc) {
        db->pc_next += is_full_length(half_at(db, cpu)) ? FULL : COMPRESSED;
    }
}
#define target_after_instruction target_after_instruction

static void target_after_block(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
    stay(s);
}
#define target_after_block target_after_block
