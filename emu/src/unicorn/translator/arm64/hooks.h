/*
 * AArch64. Part of loop.c; defaults.h says what each hook is for.
 */
#include "narrow.h"
#include "../arm/exceptions.h"
#include "../arm/debug_registers.h"
#include "walk.h"

static void target_make_ready(struct uc_struct *uc)
{
    answer_debug_registers(uc);
    correct_narrow_registers(uc);
}
#define target_make_ready target_make_ready

static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    if (!ask_for_own_break(db, cpu, machine)) {
        return IN_NEXT_BLOCK;
    }
    look_for_swap(cpu->uc->tcg_ctx, machine, db, cpu);
    return BY_THE_LIBRARY;
}
#define target_translate target_translate

/* The pc's offset in the state. With it jumps.h finds jumps to constant addresses and caches their targets. */
#define TARGET_PC_AT offsetof(CPUARMState, pc)

/*
 * Unicorn emits a callback in front of each MRS and MSR, whatever the register. If the machine does not emulate the
 * register, the callback would return 0. So the call becomes the constant 0, and TCG's optimizer drops the test of it.
 */
static void target_after_block(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
    TCGOp *op, *before;

    QTAILQ_FOREACH(op, &s->ops, link) {
        if (op->opc != INDEX_op_call || op->args[TCGOP_CALLO(op) + TCGOP_CALLI(op)] != (uintptr_t)HELPER(uc_hooksys64)) {
            continue;
        }
        /* The second argument is the instruction word, which the operation right before puts there. */
        before = op;
        do {
            before = QTAILQ_PREV(before, link);
        } while (before && !(before->opc == INDEX_op_movi_i32 && before->args[0] == op->args[TCGOP_CALLO(op) + 1]));
        if (before && !machine->answers(machine, (uint32_t)before->args[1] >> 5 & 0xffff)) {
            op->opc = INDEX_op_movi_i32;
            op->args[1] = 0;
        }
    }
}
#define target_after_block target_after_block
