/*
 * What the library's code for z/Architecture does at greater cost than it need be, or for nobody (docs/unicorn.md, "Our
 * own start of a block"). A part of loop.c.
 *
 * Most instructions of this CPU leave the upper half of their register alone. The library puts the lower one in by two
 * turns of the register, the first through both halves, for which some processors take six steps (SHRD): here the upper
 * half is cut out and joined with the lower one.
 *
 * And each branch notes where it stands, for program interruptions to tell the guest. We tell it nothing
 * (cpu/s390/deliver.rs), for it would be told of branches in the window. Where the guest records its own code it needs
 * to be known.
 */

/* The upper half of one and the lower of another. */
static void join(TCGContext *s, TCGOp *both, TCGOp *turn, TCGv_i64 upper, TCGv_i64 lower)
{
    TCGOp *last = tcg_last_op(s);
    TCGTemp *result = arg_temp(turn->args[0]);

    tcg_gen_shri_i64(s, upper, temp_tcgv_i64(s, arg_temp(both->args[1])), 32);
    tcg_gen_shli_i64(s, upper, upper, 32);
    tcg_gen_ext32u_i64(s, lower, temp_tcgv_i64(s, arg_temp(both->args[2])));
    tcg_gen_or_i64(s, temp_tcgv_i64(s, result), upper, lower);
    move_behind(s, turn, last);
    tcg_op_remove(s, both);
    tcg_op_remove(s, turn);
}

/* The turn that follows, by half and in place. */
static TCGOp *turn_behind(TCGOp *both)
{
    TCGOp *by = QTAILQ_NEXT(both, link), *turn = by ? QTAILQ_NEXT(by, link) : NULL;
    bool is_half = turn && by->opc == INDEX_op_movi_i64 && by->args[1] == 32 && by->args[0] != both->args[0];

    if (is_half && turn->opc == INDEX_op_rotl_i64 && turn->args[0] == both->args[0] && turn->args[1] == both->args[0]
        && turn->args[2] == by->args[0]) {
        return turn;
    }
    return NULL;
}

static void do_less(TCGContext *s, bool records)
{
    TCGArg branch = tcgv_i64_arg(s, s->gbea);
    TCGOp *op, *next, *turn;
    TCGv_i64 upper, lower;

    /* What the translator has given back may be in use where operations are put between its own. */
    memset(s->free_temps, 0, sizeof(s->free_temps));
    upper = tcg_temp_new_i64(s);
    lower = tcg_temp_new_i64(s);
    QTAILQ_FOREACH_SAFE(op, &s->ops, link, next) {
        if (op->opc == INDEX_op_extract2_i64 && op->args[3] == 32) {
            turn = turn_behind(op);
            if (turn) {
                next = QTAILQ_NEXT(turn, link);
                join(s, op, turn, upper, lower);
            }
        } else if ((op->opc == INDEX_op_movi_i64 || op->opc == INDEX_op_movcond_i64) && op->args[0] == branch && !records) {
            tcg_op_remove(s, op);
        }
    }
    tcg_temp_free_i64(s, lower);
    tcg_temp_free_i64(s, upper);
}
