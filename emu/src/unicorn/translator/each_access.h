/*
 * Calls the machine in front of every load and store of translated code, watched or not. Tests compare that with what
 * watched pages report. Part of loop.c.
 */

/* Called by translated code. `kind` is the number of bytes, and in bit 8 whether it is a store. */
static void each_access(CPUArchState *env, uint64_t address, uint64_t kind, uint64_t pc)
{
    struct trapline_machine *machine = machine_of(env_cpu(env)->uc);
    machine->each_access(machine, address, kind, pc);
}

/* Adds the calls to a complete block. */
static void tell_each_access(TCGContext *s)
{
    TCGOp *op, *next;
    uint64_t pc = 0;
    TCGv_i64 address, kind, at;

    /* The calls are inserted in front of places where temporaries, now free, are still in use. So none may be reused. */
    memset(s->free_temps, 0, sizeof(s->free_temps));
    address = tcg_temp_new_i64(s);
    kind = tcg_temp_new_i64(s);
    at = tcg_temp_new_i64(s);
    know(s, each_access, "each_access", 0,
         dh_sizemask(void, 0) | dh_sizemask(env, 1) | dh_sizemask(i64, 2) | dh_sizemask(i64, 3) | dh_sizemask(i64, 4));
    QTAILQ_FOREACH_SAFE(op, &s->ops, link, next) {
        TCGTemp *all[4];
        TCGOp *last, *before = QTAILQ_PREV(op, link);
        bool is_store = op->opc == INDEX_op_qemu_st_i32 || op->opc == INDEX_op_qemu_st_i64;
        if (op->opc == INDEX_op_insn_start) {
            pc = op->args[0];
        }
        if (!is_store && op->opc != INDEX_op_qemu_ld_i32 && op->opc != INDEX_op_qemu_ld_i64) {
            continue;
        }
        last = tcg_last_op(s);
#if TARGET_LONG_BITS == 32
        tcg_gen_extu_i32_i64(s, address, temp_tcgv_i32(s, arg_temp(op->args[1])));
#else
        tcg_gen_mov_i64(s, address, temp_tcgv_i64(s, arg_temp(op->args[1])));
#endif
        tcg_gen_movi_i64(s, kind, (uint64_t)memop_size(get_memop(op->args[2])) | (uint64_t)is_store << 8);
        tcg_gen_movi_i64(s, at, pc);
        all[0] = tcgv_ptr_temp(s, s->cpu_env);
        all[1] = tcgv_i64_temp(s, address);
        all[2] = tcgv_i64_temp(s, kind);
        all[3] = tcgv_i64_temp(s, at);
        tcg_gen_callN(s, each_access, NULL, 4, all);
        while (tcg_last_op(s) != last) {
            TCGOp *one = tcg_last_op(s);
            QTAILQ_REMOVE(&s->ops, one, link);
            QTAILQ_INSERT_AFTER(&s->ops, before, one, link);
        }
    }
}
