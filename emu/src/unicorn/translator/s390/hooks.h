/*
 * z/Architecture (docs/unicorn.md, "z/Architecture"). Part of loop.c; defaults.h says what each hook is for.
 */
#include "exec/helper-gen.h"
#include "internal.h"
#include "tcg_s390x.h"
#include "left.h"

/* Whether the guest traces the block's instructions by PER (program-event recording). */
static bool records(const TranslationBlock *tb)
{
    return tb->flags & FLAG_MASK_PER;
}

#include "simplify.h"
#include "refused.h"

/* Stands in for `helper_exception` of misc_helper.c, 2.1.5: system calls, program interruptions that the translator knows of,
   and instructions that the machine executes. */
static void except(CPUS390XState *env, uint32_t number)
{
    tell(env_cpu(env), number);
}

/*
 * Stands in for `helper_csst` of mem_helper.c, 2.1.5, which reads past the last register in the form with two registers.
 */
static uint32_t compare_swap_store(CPUS390XState *env, uint32_t number, uint64_t first, uint64_t second)
{
    cpu_restore_state(env_cpu(env), GETPC(), false);
    if ((env->regs[0] & 0xff) == 2 && number & 1) {
        tcg_s390_program_interrupt(env, PGM_SPECIFICATION, 0);
    }
    return HELPER(csst)(env, number, first, second);
}

/* Stands in for `helper_per_check_exception` of misc_helper.c, 2.1.5: `raise_recorded` raises the event later. */
static void not_yet(CPUS390XState *env)
{
}

/* Stands in for `helper_per_ifetch` of misc_helper.c, 2.1.5, which sets the address for its own event only. A store of the
   instruction records an event, too (s390/access.h). */
static void begin_recorded(CPUS390XState *env, uint64_t address)
{
    cpu_restore_state(env_cpu(env), GETPC(), false);
    env->per_address = address;
    HELPER(per_ifetch)(env, address);
    HERE;
}

/* Stand in for `helper_lctl` and `helper_lctlg` of mem_helper.c, 2.1.5. Control registers 9 to 11 may now watch other
   memory. */
static void load_control(CPUS390XState *env, uint32_t first, uint64_t address, uint32_t last)
{
    cpu_restore_state(env_cpu(env), GETPC(), false);
    HELPER(lctl)(env, first, address, last);
    follow_debug_registers(env_cpu(env));
    HERE;
}

static void load_long_control(CPUS390XState *env, uint32_t first, uint64_t address, uint32_t last)
{
    cpu_restore_state(env_cpu(env), GETPC(), false);
    HELPER(lctlg)(env, first, address, last);
    follow_debug_registers(env_cpu(env));
    HERE;
}

static bool target_watches(CPUState *cpu)
{
    const CPUS390XState *env = cpu->env_ptr;

    return env->cregs[9] & PER_CR9_EVENT_STORE;
}
#define target_watches target_watches

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(exception), except, true },
    { HELPER(per_check_exception), not_yet, false },
    { HELPER(csst), compare_swap_store, false },
    { HELPER(per_ifetch), begin_recorded, false },
    { HELPER(lctl), load_control, false },
    { HELPER(lctlg), load_long_control, false },
    { NULL, NULL, false },
};
#define target_instead target_instead

/*
 * Control register 0 also masks interrupts, and the board decides which interrupts to request. So the board is told when
 * LCTL or LCTLG has loaded this register.
 */
#define CONTROL_0 0xb700

/* Whether the instruction at `pc` is LCTL or LCTLG whose register range includes control register 0. */
static bool loads_control_0(DisasContextBase *db, CPUState *cpu, uint64_t pc)
{
    unsigned code = code_at(db, cpu, pc), first = code >> 4 & 0xf, last = code & 0xf, low = 0x2f;

    if (db->tb->flags & FLAG_MASK_PSTATE || (code >> 8 != 0xb7 && code >> 8 != 0xeb)) {
        return false;
    }
    if (code >> 8 == 0xeb && !executed(db->tb)) {
        low = cpu_lduw_code(cpu->env_ptr, pc + 4) & 0xff;
    } else if (code >> 8 == 0xeb) {
        low = executed(db->tb) >> 16 & 0xff;
    }
    return low == 0x2f && (first == 0 || first > last);
}

static void control_0_loaded(CPUS390XState *env, uint64_t machine, uint64_t pc, uint64_t number)
{
    struct trapline_machine *from = (struct trapline_machine *)(uintptr_t)machine;

    env->psw.addr = pc;
    from->register_out(from, (uint32_t)number, env->cregs[0]);
}

/*
 * A fault of a fetch in the probe window is undone, and with it the translation-exception address that Unicorn has stored
 * in the lowcore. SPX makes another page the lowcore. So the machine is told, and reads the field there before a fault
 * overwrites it.
 */
#define SET_PREFIX 0xb210

static bool moves_lowcore(DisasContextBase *db, CPUState *cpu, uint64_t pc)
{
    return !(db->tb->flags & FLAG_MASK_PSTATE) && code_at(db, cpu, pc) == SET_PREFIX;
}

static void lowcore_moved(CPUS390XState *env, uint64_t machine, uint64_t pc, uint64_t number)
{
    struct trapline_machine *from = (struct trapline_machine *)(uintptr_t)machine;

    from->register_out(from, (uint32_t)number, env->psa);
}

/*
 * Raises a PER event (program-event recording, by which a guest traces its own code). Unicorn raises the event inside
 * of the instruction and restores the state in front of it, which loses the condition code and a branch's target. So a
 * traced block has one instruction, its event stays pending (`not_yet`), and this function raises it in front of the next
 * instruction, when all state is written back. No event is raised between EXECUTE and its target.
 */
static void raise_recorded(CPUS390XState *env, uint64_t machine, uint64_t pc, uint64_t number)
{
    CPUState *cpu = env_cpu(env);

    if (env->per_perc_atmid) {
        env->psw.addr = pc;
        env->int_pgm_code = (uint32_t)number;
        env->int_pgm_ilen = 2;
        cpu->exception_index = EXCP_PGM;
        cpu_loop_exit(cpu);
    }
}

/*
 * SQXBR, the square root of a 128-bit number. Unicorn's table has no place for the second half of the result, and its
 * translator follows a null pointer. So it is translated here, as the first of its block, where the condition code is
 * written back. Unicorn still refuses what must be refused.
 */
static bool is_long_root(DisasContextBase *db, CPUState *cpu, unsigned *registers)
{
    uint64_t instead = executed(db->tb);

    if (next_code(db, cpu) != 0xb316 || !(db->tb->flags & FLAG_MASK_AFP)) {
        return false;
    }
    *registers = instead ? instead >> 32 & 0xff : cpu_ldub_code(cpu->env_ptr, db->pc_next + 3);
    return (*registers & 0x22) == 0;
}

static void long_root(TCGContext *s, DisasContextBase *db, unsigned registers)
{
    unsigned to = registers >> 4, from = registers & 0xf;
    unsigned length = executed(db->tb) ? executed(db->tb) & 0xf : 4;
    TCGv_i64 high, low;

    tcg_gen_insn_start(s, db->pc_next, CC_OP_DYNAMIC, length);
    high = tcg_const_i64(s, db->pc_next);
    low = tcg_const_i64(s, 0);
    if (records(db->tb)) {
        gen_helper_per_ifetch(s, s->cpu_env, high);
    }
    if (executed(db->tb)) {
        tcg_gen_st_i64(s, low, s->cpu_env, offsetof(CPUS390XState, ex_value));
    }
    tcg_gen_ld_i64(s, high, s->cpu_env, offsetof(CPUS390XState, vregs[from][0]));
    tcg_gen_ld_i64(s, low, s->cpu_env, offsetof(CPUS390XState, vregs[from + 2][0]));
    gen_helper_sqxb(s, high, s->cpu_env, high, low);
    tcg_gen_ld_i64(s, low, s->cpu_env, offsetof(CPUS390XState, retxl));
    tcg_gen_st_i64(s, high, s->cpu_env, offsetof(CPUS390XState, vregs[to][0]));
    tcg_gen_st_i64(s, low, s->cpu_env, offsetof(CPUS390XState, vregs[to + 2][0]));
    tcg_temp_free_i64(s, low);
    tcg_temp_free_i64(s, high);
    db->pc_next += length;
    db->is_jmp = DISAS_TOO_MANY;
}

/*
 * CKSM whose second operand is in register pair 0. Unicorn takes register 0 for no register, as in an address, and adds up
 * memory from address 0 on. So it is translated here, as the first of its block.
 */
static bool is_sum_at_0(DisasContextBase *db, CPUState *cpu, unsigned *registers)
{
    uint64_t instead = executed(db->tb);

    if (next_code(db, cpu) != 0xb241) {
        return false;
    }
    *registers = instead ? instead >> 32 & 0xff : cpu_ldub_code(cpu->env_ptr, db->pc_next + 3);
    return (*registers & 0xf) == 0;
}

static void sum_at_0(TCGContext *s, DisasContextBase *db, unsigned registers)
{
    unsigned length = executed(db->tb) ? executed(db->tb) & 0xf : 4;
    uint64_t mask = db->tb->flags & FLAG_MASK_64 ? UINT64_MAX : db->tb->flags & FLAG_MASK_32 ? 0x7fffffff : 0xffffff;
    TCGv_i64 address, used;

    tcg_gen_insn_start(s, db->pc_next, CC_OP_DYNAMIC, length);
    address = tcg_const_i64(s, db->pc_next);
    used = tcg_const_i64(s, 0);
    if (records(db->tb)) {
        gen_helper_per_ifetch(s, s->cpu_env, address);
    }
    if (executed(db->tb)) {
        tcg_gen_st_i64(s, used, s->cpu_env, offsetof(CPUS390XState, ex_value));
    }
    tcg_gen_andi_i64(s, address, s->regs[0], mask);
    gen_helper_cksm(s, used, s->cpu_env, s->regs[registers >> 4], address, s->regs[1]);
    tcg_gen_ld_i64(s, address, s->cpu_env, offsetof(CPUS390XState, retxl));
    tcg_gen_deposit_i64(s, s->regs[registers >> 4], s->regs[registers >> 4], address, 0, 32);
    tcg_gen_add_i64(s, s->regs[0], s->regs[0], used);
    tcg_gen_sub_i64(s, s->regs[1], s->regs[1], used);
    tcg_temp_free_i64(s, address);
    tcg_temp_free_i64(s, used);
    db->pc_next += length;
    db->is_jmp = DISAS_TOO_MANY;
}

static bool target_is_part(const TranslationBlock *tb)
{
    return executed(tb);
}
#define target_is_part target_is_part

static void target_before_block(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db)
{
    if (!records(db->tb)) {
        return;
    }
    db->max_insns = 1;
    if (!executed(db->tb)) {
        call_with_machine(s, (void *)(uintptr_t)raise_recorded, "raise_recorded", machine, db->tb->pc, PGM_PER);
    }
}
#define target_before_block target_before_block

/*
 * Whether the instruction reaches into the next page. If that page is not there, the fault is the instruction's own; in the
 * middle of a block it would be that of the block's first instruction. So such an instruction begins a block.
 */
static bool reaches_next_page(DisasContextBase *db, CPUState *cpu)
{
    unsigned form = code_at(db, cpu, db->pc_next) >> 14, bytes = form == 0 ? 2 : form == 3 ? 6 : 4;

    return (db->pc_next & ~TARGET_PAGE_MASK) + bytes > TARGET_PAGE_SIZE;
}

static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    TCGContext *s = cpu->uc->tcg_ctx;
    enum translated refused;
    unsigned registers;
    bool sums;
    int left;

    if (db->num_insns > 1 && reaches_next_page(db, cpu)) {
        return IN_NEXT_BLOCK;
    }
    refused = refuse_next(s, machine, db, cpu);
    if (refused != BY_THE_LIBRARY) {
        return refused;
    }
    left = left_to_us(db, cpu);
    sums = !left && is_sum_at_0(db, cpu, &registers);
    if (!left && !sums && !is_long_root(db, cpu, &registers)) {
        return BY_THE_LIBRARY;
    }
    if (db->num_insns > 1) {
        return IN_NEXT_BLOCK;
    }
    if (left) {
        hand_over(ops, db, cpu, left);
    } else if (sums) {
        sum_at_0(s, db, registers);
    } else {
        long_root(s, db, registers);
    }
    return BY_US;
}
#define target_translate target_translate

/*
 * An instruction that is invalid or refused ends its block by an exception, and Unicorn leaves it out of the block's
 * bytes. A write to it would then not drop the block. So its length is added.
 */
static void target_after_instruction(DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine, uint64_t pc)
{
    static const unsigned char lengths[4] = {2, 4, 4, 6};

    if (db->is_jmp == DISAS_NORETURN && db->pc_next == pc && !executed(db->tb)) {
        db->pc_next += lengths[next_code(db, cpu) >> 14];
    }
    if (machine && db->is_jmp != DISAS_NORETURN && loads_control_0(db, cpu, pc)) {
        call_with_machine(cpu->uc->tcg_ctx, (void *)(uintptr_t)control_0_loaded, "control_0_loaded", machine, pc, CONTROL_0);
    }
    if (machine && db->is_jmp != DISAS_NORETURN && moves_lowcore(db, cpu, pc)) {
        call_with_machine(cpu->uc->tcg_ctx, (void *)(uintptr_t)lowcore_moved, "lowcore_moved", machine, pc, SET_PREFIX);
    }
}
#define target_after_instruction target_after_instruction

static void target_after_block(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
    simplify(s, records(tb));
}
#define target_after_block target_after_block
