/*
 * Removes unneeded work from Unicorn's code for z/Architecture (docs/unicorn.md, "Our own start of a block"). A part of
 * loop.c.
 *
 * Most instructions leave the upper half of their register unchanged. Unicorn inserts the lower half by two rotations,
 * the first across both operands, for which some processors take six steps (SHRD). Here the upper half is masked and
 * combined with the lower half.
 *
 * Each branch also stores its address, for program interruptions to report. The machine does not report it
 * (cpu/s390/deliver.rs), because it would report branches in the window. It is kept only while the guest records its
 * own code (PER).
 */

/* Combines the upper half of one value and the lower half of another. */
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

/* The rotation by 32 bits, of the result in place, that follows the operation `both`. NULL: another operation follows. */
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

/* Simplifies a complete block. `records` says whether the guest traces it by PER, which needs the branch addresses. */
static void simplify(TCGContext *s, bool records)
{
    TCGArg branch = tcgv_i64_arg(s, s->gbea);
    TCGOp *op, *next, *turn;
    TCGv_i64 upper, lower;

    /* Temporaries that the translator has freed may be in use at the places where operations are inserted. */
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
