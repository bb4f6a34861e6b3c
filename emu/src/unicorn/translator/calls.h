/*
 * Edits of a translated block: replaces calls of Unicorn's helpers by calls of functions of ours, and exits to Unicorn's
 * main loop by jumps to the next block (docs/unicorn.md, "Our own start of a block"). A part of loop.c.
 *
 * Helpers that make a callback first restore the CPU's state to the instruction, whose code they find by their return
 * address; but the translator has already written that state before it calls them. Called from the functions here,
 * their return address is not in translated code, so they restore nothing.
 *
 * Helpers that raise an exception end the block by a long jump to Unicorn's main loop, which makes the callback and
 * looks up the next block. The replacements make the callback themselves, and the code continues at the pc that the
 * callback has set.
 */
/* Emits a jump to the block at the CPU's pc, directly after operation `op`. */
static void go_on(TCGContext *s, TCGOp *op)
{
    TCGOp *last = tcg_last_op(s);
    TCGOp *call;

    tcg_gen_lookup_and_goto_ptr(s);
    call = QTAILQ_NEXT(last, link);
    while (call != NULL && call->opc != INDEX_op_call) {
        call = QTAILQ_NEXT(call, link);
    }
    if (call != NULL) {
        call->args[TCGOP_CALLO(call) + TCGOP_CALLI(call)] = (uintptr_t)look_up_unless_told;
    }
    if (op != last) {
        move_behind(s, op, last);
    }
}

/* Replaces calls of Unicorn's helpers in a block by calls of our functions (`target_instead`). */
static void replace_helpers(TCGContext *s, struct trapline_machine *machine, uint64_t cs_base)
{
    TCGOp *op, *next;

    QTAILQ_FOREACH_SAFE(op, &s->ops, link, next) {
        TCGArg *function;
        if (op->opc != INDEX_op_call) {
            continue;
        }
        function = &op->args[TCGOP_CALLO(op) + TCGOP_CALLI(op)];
        for (const struct instead *row = target_instead; row->helper != NULL; row++) {
            if (*function == (uintptr_t)row->helper) {
                *function = (uintptr_t)row->ours;
                if (row->raises) {
                    /* The flags follow the function. */
                    function[1] &= ~(TCGArg)TCG_CALL_NO_RETURN;
                    go_on(s, op);
                } else if (row->ours == (void *)look_up) {
                    remember(s, machine, op, cs_base);
                }
                break;
            }
        }
    }
}

/*
 * Replaces exits to Unicorn's main loop by a look-up of the next block. Unicorn exits at the end of a block that it does not
 * chain to the next one, to take interrupts. Here the machine takes interrupts at the start of a block, so no exit is needed.
 * On MIPS this is not faster.
 */
static inline void stay(TCGContext *s)
{
    TCGOp *op, *next;

    QTAILQ_FOREACH_SAFE(op, &s->ops, link, next) {
        if (op->opc == INDEX_op_exit_tb && op->args[0] == 0) {
            go_on(s, op);
            tcg_op_remove(s, op);
        }
    }
}
