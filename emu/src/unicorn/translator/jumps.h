/*
 * Jumps to a next block that is not known at translation or lies in another page (docs/unicorn.md, "Our own start of a
 * block"). A part of loop.c.
 *
 * Unicorn looks up the next block by its address in a table of 4,096 entries, which is cleared together with the TLB.
 * If it is not there, Unicorn searches by the physical address, in three functions and a table of all blocks. The code
 * here has its own table, whose rows are checked against the host address of the page, so they stay valid as long as
 * the virtual address maps to the same page. And a jump whose target is a constant of the block caches the block that
 * it has found.
 */
enum { FOUND_BITS = 14, JUMPS = 1 << 18 };

/* A row of the table: a translation block that was found. The block lies in one page. */
struct row {
    uint64_t pc;
    /* The host address of the first byte of its guest code. */
    uintptr_t host;
    TranslationBlock *block;
};

/* The cached target of a jump to a constant address: the block, and the start of its host code. */
struct jump {
    TranslationBlock *block;
    void *code;
};

/* The value of `block` while no target is cached. It differs from NULL, which is an empty entry of Unicorn's table. */
#define NOTHING ((TranslationBlock *)1)

struct found {
    /* Unicorn's count of flushes of all blocks (tb_flush_count) when this was cleared. Another count means that all pointers
       here are stale. */
    unsigned thrown_away;
    /* The number of used elements of `jump`. */
    unsigned jumps;
    struct row rows[1 << FOUND_BITS];
    struct jump jump[JUMPS];
    struct break_sets break_sets;
    struct target_memory target;
};

static inline struct target_memory *target_memory_of(struct uc_struct *uc)
{
    struct trapline_machine *machine = machine_of(uc);
    return machine ? &machine->found->target : NULL;
}

/* Clears the table and the cached targets if Unicorn has flushed all blocks. */
static struct found *found_of(struct uc_struct *uc, struct found *found)
{
    unsigned now = uc->tcg_ctx->tb_ctx.tb_flush_count;

    if (unlikely(found->thrown_away != now)) {
        memset(found->rows, 0, sizeof(found->rows));
        found->jumps = 0;
        found->thrown_away = now;
    }
    return found;
}

/* Whether Unicorn's main loop would run this block: its flags are the default ones, and it was not invalidated. */
static inline bool is_plain(const TranslationBlock *tb)
{
    return (tb->cflags & ((CF_HASH_MASK & ~CF_CLUSTER_MASK) | CF_INVALID)) == 0;
}

static inline bool is_for(const TranslationBlock *tb, target_ulong pc, target_ulong cs_base, uint32_t flags)
{
    return tb->pc == pc && tb->cs_base == cs_base && tb->flags == flags && is_plain(tb);
}

/* The host address of the code at this guest address. 0, which no row has, if its TLB entry is not present. */
static uintptr_t host_of(CPUArchState *env, struct uc_struct *uc, target_ulong pc)
{
    const CPUTLBEntry *entry = tlb_entry(env, cpu_mmu_index(env, true), pc);
    return entry->addr_code == (pc & TARGET_PAGE_MASK) ? (uintptr_t)pc + entry->addend : 0;
}

/* Like `look_up`, for a block that is not in Unicorn's table: looks in our table, then calls Unicorn's helper. */
static void *__attribute__((noinline)) look_further(CPUArchState *env, CPUState *cpu, target_ulong pc, target_ulong cs_base, uint32_t flags)
{
    struct uc_struct *uc = cpu->uc;
    TranslationBlock **place = &cpu->tb_jmp_cache[tb_jmp_cache_hash_func(uc, pc)];
    struct found *found = found_of(uc, machine_of(uc)->found);
    struct row *row = &found->rows[(uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FOUND_BITS)];
    uintptr_t host;
    void *code;

    if (row->block && row->pc == pc && is_for(row->block, pc, cs_base, flags)) {
        host = host_of(env, uc, pc);
        if (host == 0) {
            /* Fills the TLB entry, or leaves by the fault, as Unicorn's search would. */
            get_page_addr_code(env, pc);
            host = host_of(env, uc, pc);
        }
        if (row->host == host) {
            *place = row->block;
            target_block_found(env, place - cpu->tb_jmp_cache, row->block);
            return row->block->tc.ptr;
        }
    }
    code = HELPER(lookup_tb_ptr)(env);
    host = host_of(env, uc, pc);
    if (code != uc->tcg_ctx->code_gen_epilogue && host != 0 && (*place)->page_addr[1] == (tb_page_addr_t)-1) {
        *row = (struct row){pc, host, *place};
        target_block_found(env, place - cpu->tb_jmp_cache, *place);
    }
    return code;
}

/* The host code of the block at the CPU's pc. If Unicorn's main loop must make the block, the exit from translated code. */
static void *look_up(CPUArchState *env)
{
    CPUState *cpu = env_cpu(env);
    const TranslationBlock *tb;
    target_ulong pc, cs_base;
    uint32_t flags;

    cpu_get_tb_cpu_state(env, &pc, &cs_base, &flags);
    tb = cpu->tb_jmp_cache[tb_jmp_cache_hash_func(cpu->uc, pc)];
    if (likely(tb && is_for(tb, pc, cs_base, flags))) {
        return tb->tc.ptr;
    }
    return look_further(env, cpu, pc, cs_base, flags);
}

/* Like `look_up`, after a callback that may have ended the run. */
static void *look_up_unless_told(CPUArchState *env)
{
    CPUState *cpu = env_cpu(env);

    if (unlikely((int32_t)cpu_neg(cpu)->icount_decr.u32 < 0)) {
        return cpu->uc->tcg_ctx->code_gen_epilogue;
    }
    return look_up(env);
}

/* Moves the operations after `last`, which were emitted last, to directly after `op`. */
static void move_behind(TCGContext *s, TCGOp *op, TCGOp *last)
{
    TCGOp *next;

    while ((next = QTAILQ_NEXT(last, link)) != NULL) {
        QTAILQ_REMOVE(&s->ops, next, link);
        QTAILQ_INSERT_AFTER(&s->ops, op, next, link);
        op = next;
    }
}

#ifdef TARGET_PC_AT
/*
 * If a block ends with a jump to a constant address, everything else that selects the next block is also known from the
 * block. Unicorn chains two such blocks for good, if they lie in one page. If they lie in two, the second page may
 * later be mapped to other memory; but then Unicorn clears its table's entries for that page. So the cached block is
 * valid as long as Unicorn's table has it in its place.
 */
static void *look_up_and_remember(CPUArchState *env, uint64_t remembered)
{
    CPUState *cpu = env_cpu(env);
    struct jump *jump = (struct jump *)(uintptr_t)remembered;
    void *code = look_up(env);
    target_ulong pc, cs_base;
    uint32_t flags;

    if (code != cpu->uc->tcg_ctx->code_gen_epilogue) {
        cpu_get_tb_cpu_state(env, &pc, &cs_base, &flags);
        *jump = (struct jump){cpu->tb_jmp_cache[tb_jmp_cache_hash_func(cpu->uc, pc)], code};
    }
    return code;
}

/* The constant that the last operation before this one writes to this temporary; false if it does not write a
   constant. */
static bool number_of(TCGContext *s, TCGOp *op, TCGArg temporary, uint64_t *number)
{
    while ((op = QTAILQ_PREV(op, link)) != NULL && op->opc != INDEX_op_set_label && op->opc != INDEX_op_insn_start) {
        if ((op->opc == INDEX_op_movi_i64 || op->opc == INDEX_op_movi_i32) && op->args[0] == temporary) {
            *number = (target_ulong)op->args[1];
            return true;
        }
        if (op->opc == INDEX_op_call || (s->tcg_op_defs[op->opc].nb_oargs > 0 && op->args[0] == temporary)) {
            return false;
        }
    }
    return false;
}

/* Whether the block has set the CPU's pc to a constant before this call. Writes the constant to `pc`. */
static bool names_pc(TCGContext *s, TCGOp *call, uint64_t *pc)
{
    TCGOp *op = call;

    while ((op = QTAILQ_PREV(op, link)) != NULL && op->opc != INDEX_op_set_label && op->opc != INDEX_op_insn_start && op->opc != INDEX_op_call) {
        if ((op->opc == INDEX_op_st_i64 || op->opc == INDEX_op_st_i32) && op->args[2] == TARGET_PC_AT && arg_temp(op->args[1])->fixed_reg) {
            return number_of(s, op, op->args[0], pc);
        }
        if (s->tcg_op_defs[op->opc].nb_oargs > 0) {
            TCGTemp *written = arg_temp(op->args[0]);
            if (written->temp_global && !written->fixed_reg && written->mem_offset == TARGET_PC_AT) {
                *pc = (target_ulong)op->args[1];
                return op->opc == INDEX_op_movi_i64 || op->opc == INDEX_op_movi_i32;
            }
        }
    }
    return false;
}

/* Emits code at the end of a block: a jump to the cached block if it is valid, else a call that looks it up and caches it. */
static void remember(TCGContext *s, struct trapline_machine *machine, TCGOp *call, uint64_t cs_base)
{
    struct found *found = found_of(s->uc, machine->found);
    TCGOp *before = QTAILQ_PREV(call, link), *go = QTAILQ_NEXT(call, link), *last = tcg_last_op(s);
    TCGLabel *unknown;
    TCGTemp *arguments[2], *result;
    TCGv_i64 remembered, in_place, argument;
    TCGv_ptr code;
    struct jump *jump;
    uint64_t pc;

    if (found->jumps == JUMPS || go == NULL || go->opc != INDEX_op_goto_ptr || !names_pc(s, call, &pc)) {
        return;
    }
    jump = &found->jump[found->jumps++];
    *jump = (struct jump){NOTHING, NULL};
    pc = (target_ulong)(pc + cs_base);

    unknown = gen_new_label(s);
    in_place = tcg_temp_new_i64(s);
    remembered = tcg_const_i64(s, (uintptr_t)&jump->block);
    tcg_gen_ld_i64(s, remembered, (TCGv_ptr)remembered, 0);
    tcg_gen_ld_i64(s, in_place, s->cpu_env, FROM_STATE(offsetof(CPUState, tb_jmp_cache[tb_jmp_cache_hash_func(s->uc, pc)])));
    tcg_gen_brcond_i64(s, TCG_COND_NE, in_place, remembered, unknown);
    code = tcg_const_ptr(s, &jump->code);
    tcg_gen_ld_ptr(s, code, code, 0);
    tcg_emit_op(s, INDEX_op_goto_ptr)->args[0] = tcgv_ptr_arg(s, code);
    gen_set_label(s, unknown);
    argument = tcg_const_i64(s, (uintptr_t)jump);
    arguments[0] = tcgv_ptr_temp(s, s->cpu_env);
    arguments[1] = tcgv_i64_temp(s, argument);
    result = arg_temp(go->args[0]);
    know(s, look_up_and_remember, "look_up_and_remember", TCG_CALL_NO_WG, dh_sizemask(ptr, 0) | dh_sizemask(env, 1) | dh_sizemask(i64, 2));
    tcg_gen_callN(s, look_up_and_remember, result, 2, arguments);
    tcg_temp_free_i64(s, argument);
    tcg_temp_free_ptr(s, code);
    tcg_temp_free_i64(s, remembered);
    tcg_temp_free_i64(s, in_place);

    move_behind(s, before, last);
    tcg_op_remove(s, call);
}
#else
static void remember(TCGContext *s, struct trapline_machine *machine, TCGOp *call, uint64_t cs_base)
{
}
#endif
