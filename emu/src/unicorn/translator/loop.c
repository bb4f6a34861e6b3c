/*
 * Translates a block of guest code, in place of Unicorn's own loop (docs/unicorn.md, "Our own start of a block").
 *
 * Unicorn makes a callback at the start of every block and calls a helper after every load and store. A clock that
 * counts bytes of code needs only an addition for the first, and nothing here needs the second. So a block begins with
 * the addition, and makes the callback only when the count says so; the call is placed behind the block:
 *
 *          count >= 0 ? ----------------> slow:  call the block callback
 *          count += bytes of the block           told to stop? ---> leave
 *          start = its address                   else back to `body`
 *          size  = bytes of the block                  |
 *   body:  the block  <--------------------------------+
 *
 * The three words belong to the machine's clock (unicorn/line.rs). If the callback is made, it counts; if not, the code
 * has counted. In a block that the machine always wants, the call replaces the counting.
 *
 * An engine without a block callback has no machine: its code is what Unicorn would make.
 */
#include "qemu/osdep.h"
#include "cpu.h"
#include "tcg/tcg.h"
#include "tcg/tcg-op.h"
#include "exec/exec-all.h"
#include "exec/gen-icount.h"
#include "exec/helper-proto.h"
#include "exec/tb-hash.h"
#include "exec/translator.h"
#include <uc_priv.h>

#include "machine.h"
#include "watched.h"
#include "break_sets.h"
#include "hooks.h"
#include "host_pc.h"
#include "tlb_size.h"
#include "walk.h"
#include TRAPLINE_HOOKS
#include "defaults.h"
#include "jumps.h"
#include "follow.h"
#include "calls.h"
#include "pages.h"
#include "points.h"
#include "each_access.h"

/*
 * The three words lie in `jmp_env` of the CPU, which Unicorn does not use. The offset is chosen with care: some
 * processors mistake a load for a load of the bytes of a recent store, and delay it, if their offsets from the base
 * register differ by a multiple of 1,024. These words are stored in every block, so nothing that guest code loads in
 * every block may have such an offset: neither the registers, at the beginning of the state, nor the pointers to the
 * TLB, which end in front of it.
 */
enum { GENERAL_REGISTERS_END = 0x148, WORDS_BYTES = 24, ONE_PLACE = 136, OTHER_PLACE = 24 };
#define IN_TURN(place) (FROM_STATE(offsetof(CPUState, jmp_env) + (place)) & 1023)
#define IS_CLEAR(place) \
    (IN_TURN(place) >= GENERAL_REGISTERS_END && \
     IN_TURN(place) + WORDS_BYTES <= 1024 + FROM_STATE(offsetof(ArchCPU, neg.tlb.f)))
#define START (offsetof(CPUState, jmp_env) + (IS_CLEAR(ONE_PLACE) ? ONE_PLACE : OTHER_PLACE))
#define COUNT (START + 8)
#define SIZE (START + 16)
QEMU_BUILD_BUG_ON(sizeof(((CPUState *)NULL)->jmp_env) < ONE_PLACE + WORDS_BYTES);
QEMU_BUILD_BUG_ON(!IS_CLEAR(ONE_PLACE) && !IS_CLEAR(OTHER_PLACE));
QEMU_BUILD_BUG_ON(DEBUG_PLACE < OTHER_PLACE + WORDS_BYTES || WATCHED_PLACE + sizeof(void *) > LAST_BLOCK_PLACE);
QEMU_BUILD_BUG_ON(LAST_BLOCK_PLACE + sizeof(struct last_block) > ONE_PLACE);
#define LEAVE (offsetof(ArchCPU, neg.icount_decr.u32))

/*
 * The helper that checks whether a running block was asked to end is not needed, because nothing asks. The translators
 * leave it out while `no_exit_request` is set, but the one for Thumb sets and clears this itself. So the compiler is
 * also told that the helper has no effects, and drops its calls.
 */
static void drop_checks(TCGContext *s)
{
    void *key = HELPER(check_exit_request);
    struct helper *known = g_hash_table_lookup(s->helper_table, key);
    if (known && known->function == key && !(known->flags & TCG_CALL_NO_SIDE_EFFECTS)) {
        struct helper *without = g_malloc(sizeof(*without));
        *without = *known;
        without->name = g_strdup(known->name);
        without->flags |= TCG_CALL_NO_RWG_SE;
        /* The second table frees it with the engine. */
        g_hash_table_insert(s->helper_table, key, without);
        g_hash_table_insert(s->custom_helper_infos, key, without);
    }
}

/* Makes the block callback with the pc at the block's start, and jumps to `leave` if a stop was requested. */
static TCGOp *call(TCGContext *s, const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, TCGLabel *leave)
{
    TCGv_i32 request;
    TCGOp *before, *size;

    ops->pc_sync(db, cpu);
    target_before_callback(s, db->tb);
    before = tcg_last_op(s);
    gen_uc_tracecode(s, 0, UC_HOOK_BLOCK_IDX, cpu->uc, db->pc_first);
    /* The first argument of the callback. */
    size = before ? QTAILQ_NEXT(before, link) : QTAILQ_FIRST(&s->ops);
    request = tcg_temp_new_i32(s);
    tcg_gen_ld_i32(s, request, s->cpu_env, FROM_STATE(LEAVE));
    tcg_gen_brcondi_i32(s, TCG_COND_LT, request, 0, leave);
    tcg_temp_free_i32(s, request);
    return size;
}

static TCGv_i64 load_count(TCGContext *s)
{
    TCGv_i64 count = tcg_temp_new_i64(s);
    tcg_gen_ld_i64(s, count, s->cpu_env, FROM_STATE(COUNT));
    return count;
}

/* Adds the block to the three words; returns the operation that loads its size. */
static TCGOp *count_inline(TCGContext *s, uint64_t pc)
{
    TCGv_i64 count = load_count(s);
    TCGv_i64 size = tcg_const_i64(s, 0);
    TCGOp *constant = tcg_last_op(s);
    TCGv_i64 start;

    tcg_gen_add_i64(s, count, count, size);
    tcg_gen_st_i64(s, count, s->cpu_env, FROM_STATE(COUNT));
    tcg_gen_st_i64(s, size, s->cpu_env, FROM_STATE(SIZE));
    start = tcg_const_i64(s, pc);
    tcg_gen_st_i64(s, start, s->cpu_env, FROM_STATE(START));
    tcg_temp_free_i64(s, start);
    tcg_temp_free_i64(s, size);
    tcg_temp_free_i64(s, count);
    return constant;
}

/*
 * After a block has modified itself, the CPU continues with a block of one instruction, at the modifying instruction,
 * which is repeated: less of the modified block has run than was counted. This subtracts the rest. It changes nothing
 * if the instruction is not in the last block.
 */
static void cut_short(TCGContext *s, uint64_t pc)
{
    TCGv_i64 run = tcg_temp_new_i64(s), size = tcg_temp_new_i64(s), count = load_count(s);

    tcg_gen_ld_i64(s, run, s->cpu_env, FROM_STATE(START));
    tcg_gen_ld_i64(s, size, s->cpu_env, FROM_STATE(SIZE));
    tcg_gen_subfi_i64(s, run, pc, run);
    tcg_gen_umin_i64(s, run, run, size);
    tcg_gen_sub_i64(s, size, run, size);
    tcg_gen_add_i64(s, count, count, size);
    tcg_gen_st_i64(s, count, s->cpu_env, FROM_STATE(COUNT));
    tcg_gen_st_i64(s, run, s->cpu_env, FROM_STATE(SIZE));
    tcg_temp_free_i64(s, count);
    tcg_temp_free_i64(s, size);
    tcg_temp_free_i64(s, run);
}

/* Moves the operations after `before`, up to `last`, to the end. */
static void move_to_end(TCGContext *s, TCGOp *before, TCGOp *last)
{
    TCGOp *op;

    do {
        op = QTAILQ_NEXT(before, link);
        QTAILQ_REMOVE(&s->ops, op, link);
        QTAILQ_INSERT_TAIL(&s->ops, op, link);
    } while (op != last);
}

static bool meets_breakpoint(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu)
{
    CPUBreakpoint *breakpoint;

    QTAILQ_FOREACH(breakpoint, &cpu->breakpoints, entry) {
        if (breakpoint->pc == db->pc_next && ops->breakpoint_check(db, cpu, breakpoint)) {
            return true;
        }
    }
    return false;
}

/*
 * Whether there may be no room for one more instruction. Unicorn checks the operations only; its translator for MIPS
 * leaks a temporary at every instruction, and in a long straight run writes behind the table of temporaries.
 */
enum { TEMPORARIES_OF_ONE = 96 };

static bool is_full(TCGContext *s)
{
    return tcg_op_buf_full(s) || s->nb_temps > TCG_MAX_TEMPS - TEMPORARIES_OF_ONE;
}

/* Whether a block must end in front of this address. `machine` may be NULL. */
static bool breaks_at(struct trapline_machine *machine, uint64_t pc)
{
    return machine && unlikely(machine->breaks_at != NULL) && machine->breaks_at(machine, pc);
}

/* Translates the block's instructions. `machine` may be NULL, and `points` is NULL if no program is probed. */
static void translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine,
                      struct points *points)
{
    struct uc_struct *uc = cpu->uc;
    enum translated translated;
    uint64_t pc;

    ops->tb_start(db, cpu);
    do {
        pc = db->pc_next;
        if (points && db->num_insns > 0 && is_point(points, cpu, machine, pc)) {
            db->is_jmp = DISAS_TOO_MANY;
            break;
        }
        db->num_insns++;
        ops->insn_start(db, cpu);
        if (!TARGET_HAS_BREAK_SETS && !db->singlestep_enabled) {
            /* The translation may be the debug exception. */
            meets_breakpoint(ops, db, cpu);
            if (db->is_jmp > DISAS_TOO_MANY) {
                break;
            }
        }
        translated = BY_THE_LIBRARY;
        if (machine) {
            uc->no_exit_request = true;
            translated = target_translate(ops, db, cpu, machine);
        }
        if (translated == IN_NEXT_BLOCK) {
            /* Unicorn's translator writes back all state at the end of a block. */
            db->num_insns--;
            db->is_jmp = DISAS_TOO_MANY;
            break;
        }
        if (translated == BY_THE_LIBRARY) {
            ops->translate_insn(db, cpu);
        }
        target_after_instruction(db, cpu, machine, pc);
        if (db->is_jmp == DISAS_NEXT && (is_full(uc->tcg_ctx) || db->num_insns >= db->max_insns || breaks_at(machine, db->pc_next))) {
            db->is_jmp = DISAS_TOO_MANY;
        }
    } while (db->is_jmp == DISAS_NEXT);
    ops->tb_stop(db, cpu);
    uc->no_exit_request = false;
    db->tb->size = db->pc_next - db->pc_first;
    db->tb->icount = db->num_insns;
}

void translator_loop(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, TranslationBlock *tb, int max_insns)
{
    struct uc_struct *uc = cpu->uc;
    TCGContext *s = uc->tcg_ctx;
    struct trapline_machine *machine = machine_of(uc);
    TCGLabel *slow, *body, *leave;
    TCGOp *told = NULL, *counted = NULL, *branch = NULL, *slow_end = NULL;
    struct points points = {false, 0, NULL};
    TCGv_i64 count;

    *db = (DisasContextBase){
        .tb = tb,
        .pc_first = tb->pc,
        .pc_next = tb->pc,
        .is_jmp = DISAS_NEXT,
        .max_insns = max_insns,
        .singlestep_enabled = cpu->singlestep_enabled || target_ends_by_call(tb),
    };
    ops->init_disas_context(db, cpu);
    if (machine != NULL && machine->one_by_one) {
        db->max_insns = 1;
    }

    if (machine == NULL) {
        gen_tb_start(s, tb);
        translate(ops, db, cpu, NULL, NULL);
        gen_tb_end(s, tb, db->num_insns);
        hooked_regions_check(uc, tb->pc, tb->size);
        return;
    }

    uc->memory_mapping = mapping_of;
    drop_checks(s);
    leave = gen_new_label(s);
    target_before_block(s, machine, db);
    if (max_insns == 1 && !target_is_part(tb)) {
        cut_short(s, tb->pc);
    }
    if (target_is_part(tb)) {
        /* Neither counted nor reported. */
    } else if (machine->always_wants(machine, tb->pc)) {
        told = call(s, ops, db, cpu, leave);
    } else {
        slow = gen_new_label(s);
        body = gen_new_label(s);
        count = load_count(s);
        tcg_gen_brcondi_i64(s, TCG_COND_GE, count, 0, slow);
        tcg_temp_free_i64(s, count);
        branch = tcg_last_op(s);
        /* Generated here, where the translator's state is that of the block's start; moved behind the block later. */
        gen_set_label(s, slow);
        told = call(s, ops, db, cpu, leave);
        tcg_gen_br(s, body);
        slow_end = tcg_last_op(s);
        counted = count_inline(s, tb->pc);
        gen_set_label(s, body);
    }
    if (machine->points) {
        if (max_insns > 1) {
            /* A block of one instruction repeats an instruction that has changed its own block: it was called. */
            call_points(s, &points, cpu, machine, tb);
        }
        translate(ops, db, cpu, machine, &points);
    } else {
        translate(ops, db, cpu, machine, NULL);
    }
    if (unlikely(machine->each_access != NULL)) {
        tell_each_access(s);
    }
    replace_helpers(s, machine, tb->cs_base);
    target_after_block(s, machine, tb);
    if (told) {
        told->args[1] = tb->size;
    }
    if (counted) {
        counted->args[1] = tb->size;
        move_to_end(s, branch, slow_end);
    }
    /* Before the block has run. */
    gen_set_label(s, leave);
    gen_tb_end(s, tb, db->num_insns);
    hooked_regions_check(uc, tb->pc, tb->size);
}

void translator_loop_temp_check(DisasContextBase *db)
{
    /* All temporaries are freed at the end of the block. */
}

/* Finds the pc of the instruction whose device access is in progress. */
static bool device_access_pc(CPUState *cpu, uint64_t *pc)
{
    target_show(cpu);
    return pc_of_host(cpu, cpu->mem_io_pc, pc);
}

/* The next block that the core looks up has one instruction; all others stay as they are. */
static void next_alone(CPUState *cpu)
{
    cpu->cflags_next_tb = 1 | (curr_cflags() & ~CF_COUNT_MASK);
}

/* The layout of this target's CPU, for unicorn/line.rs. */
const struct {
    size_t engine_to_cpu;
    size_t cpu_to_engine;
    size_t cpu_to_state;
    /* Offset of the pointer to the state, behind which the pointer to the counter of instructions lies. */
    size_t cpu_to_state_pointer;
    size_t cpu_to_line;
    /* Offset of the pointer to the table of functions, and in that table the offset of the function that fills a TLB
       entry. */
    size_t cpu_to_functions;
    size_t functions_to_fill;
    bool (*device_access_pc)(CPUState *cpu, uint64_t *pc);
    size_t (*beside_bytes)(CPUState *cpu);
    void (*save_beside)(CPUState *cpu, void *to);
    void (*load_beside)(CPUState *cpu, const void *from);
    size_t found_bytes;
    bool (*walk)(CPUState *cpu, vaddr address, int access, int mode);
    void (*kept)(CPUState *cpu, vaddr address, int mode, uint64_t to[8]);
    void (*choose_size)(CPUState *cpu, vaddr address, int mode);
    bool (*holds_code)(CPUState *cpu, void *host);
    bool (*release)(CPUState *cpu, void *host);
    void (*make_ready)(struct uc_struct *uc);
    void (*watch)(CPUState *cpu, const struct trapline_watched *watched);
    void (*flag)(CPUState *cpu, vaddr address, int mode);
    bool (*pc_of_host)(CPUState *cpu, uintptr_t host, uint64_t *pc);
    unsigned (*rows)(CPUState *cpu, vaddr address, uint64_t rows[]);
    void (*next_alone)(CPUState *cpu);
    void (*follow)(CPUState *cpu);
    void (*begin)(CPUState *cpu);
    void (*show)(CPUState *cpu);
} TRAPLINE_LAYOUT = {
    offsetof(struct uc_struct, cpu),
    offsetof(CPUState, uc),
    offsetof(ArchCPU, env),
    offsetof(CPUState, env_ptr),
    START,
    offsetof(CPUState, cc),
    offsetof(CPUClass, tlb_fill),
    device_access_pc,
    target_beside_bytes,
    target_save_beside,
    target_load_beside,
    sizeof(struct found),
    target_walk,
    kept,
    choose_size,
    holds_code,
    release,
    target_make_ready,
    TRAPLINE_WATCH,
    TRAPLINE_FLAG,
    pc_of_host,
    target_rows,
    next_alone,
    follow_debug_registers,
    target_begin,
    target_show,
};
