/*
 * AArch64. Part of loop.c; defaults.h says what each hook is for.
 */
#include "../arm/exceptions.h"
#include "../arm/debug_registers.h"
#include "walk.h"

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
