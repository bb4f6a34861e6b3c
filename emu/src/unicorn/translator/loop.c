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
#include "exec/translator.h"
#include <uc_priv.h>
#ifdef TARGET_S390X
#include "exec/helper-gen.h"
#include "internal.h"
#endif

/* The data of the block callback begins with this (unicorn/engine.rs). */
struct trapline_machine {
    bool (*always_wants)(struct trapline_machine *machine, uint64_t pc);
    bool (*answers)(struct trapline_machine *machine, uint32_t reg);
    /* The instruction at the pc reads or writes a CPU register, named by the number that instructions use; returns
       whether the machine emulates the register. */
    bool (*register_in)(struct trapline_machine *machine, uint32_t number, uint64_t *value);
    bool (*register_out)(struct trapline_machine *machine, uint32_t number, uint64_t value);
    /* Initially zero, and used by translated code only. */
    struct found *found;
};

/* Offset from the architectural state, to which translated code has a pointer, to a field of the CPU. */
#define FROM_STATE(field) ((long)(field) - (long)offsetof(ArchCPU, env))

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
#define LEAVE (offsetof(ArchCPU, neg.icount_decr.u32))

struct helper {
    void *function;
    const char *name;
    unsigned flags;
    unsigned arguments;
};

static struct trapline_machine *machine_of(struct uc_struct *uc)
{
    struct list_item *first = uc->hook[UC_HOOK_BLOCK_IDX].head;
    return first ? ((struct hook *)first->data)->user_data : NULL;
}

/* Registers a function as a helper, with its name and argument types. */
static void know(TCGContext *s, void *function, const char *name, unsigned flags, unsigned arguments)
{
    if (g_hash_table_lookup(s->helper_table, function) == NULL) {
        struct helper *own = g_malloc(sizeof(*own));
        *own = (struct helper){function, g_strdup(name), flags, arguments};
        g_hash_table_insert(s->helper_table, function, own);
        /* The second table frees it with the engine. */
        g_hash_table_insert(s->custom_helper_infos, function, own);
    }
}

/* Prevents a tail call, whose return address would be the caller's, in translated code. */
#define HERE __asm__ volatile("" ::: "memory")

#include "sizes.h"
#include "outlive.h"
#include "segments.h"
#include "jumps.h"
#include "calls.h"

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

/*
 * Finds the mapping of a physical address. Unicorn does this at each access without a TLB entry, by a walk through its
 * tree of mappings. A machine has only a few mappings, none inside another.
 */
MemoryRegion *find_memory_mapping(struct uc_struct *uc, hwaddr address);

static MemoryRegion *mapping_of(struct uc_struct *uc, hwaddr address)
{
    for (uint32_t number = 0; number < uc->mapped_block_count; number++) {
        MemoryRegion *region = uc->mapped_blocks[number];
        if (region->ram && address >= region->addr && address < region->end) {
            return region;
        }
    }
    return find_memory_mapping(uc, address);
}

#include "pages.h"
#include "walk.h"

/* Makes the block callback with the pc at the block's start, and jumps to `leave` if a stop was requested. */
static TCGOp *call(TCGContext *s, const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, TCGLabel *leave)
{
    TCGv_i32 request;
    TCGOp *before, *size;

    ops->pc_sync(db, cpu);
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

#if defined(TARGET_PPC) || defined(TARGET_S390X)
/* Calls a function with the state, the machine, the instruction's address and another number. */
static void call_ours_with(TCGContext *s, void *function, const char *name, struct trapline_machine *machine, uint64_t pc, uint64_t number)
{
    TCGv_i64 arguments[3];
    TCGTemp *all[4];

    know(s, function, name, 0,
         dh_sizemask(void, 0) | dh_sizemask(env, 1) | dh_sizemask(i64, 2) | dh_sizemask(i64, 3) | dh_sizemask(i64, 4));
    arguments[0] = tcg_const_i64(s, (uintptr_t)machine);
    arguments[1] = tcg_const_i64(s, pc);
    arguments[2] = tcg_const_i64(s, number);
    all[0] = tcgv_ptr_temp(s, s->cpu_env);
    for (int n = 0; n < 3; n++) {
        all[n + 1] = tcgv_i64_temp(s, arguments[n]);
    }
    tcg_gen_callN(s, function, NULL, 4, all);
    for (int n = 0; n < 3; n++) {
        tcg_temp_free_i64(s, arguments[n]);
    }
}
#endif

#if defined(TARGET_PPC)
/*
 * On PowerPC, time does not advance in Unicorn, and random numbers come from the host. So an instruction that reads the
 * time or a random number, or sets the decrementer, asks the machine first; the result is stored where the instruction
 * reads it. Priority hints, at which Unicorn would end the run, only set the register with the priority.
 */
#define NUMBER_OF(word) (((word) >> 16 & 0x1f) | ((word) >> 6 & 0x3e0))
#define IS_READ(word) (((word) & 0xfc0007fe) == 0x7c0002a6 || ((word) & 0xfc0007fe) == 0x7c0002e6)
#define IS_WRITE(word) (((word) & 0xfc0007fe) == 0x7c0003a6)
#define IS_RANDOM(word) (((word) & 0xfc1cffff) == 0x7c0005e6)
#define IS_HINT(word) (((word) & 0xfc0007ff) == 0x7c000378)
/* Larger than all register numbers (cpu/ppc/state.rs). */
#define RANDOM 1024

/* These count like the time base, as the CPU's time is not shared with other threads. */
static bool is_own_time(uint32_t number)
{
    return number == SPR_PURR || number == SPR_SPURR || number == SPR_VTB;
}

static bool is_answered(uint32_t number)
{
    return number == SPR_DECR || number == SPR_VTBL || number == SPR_VTBU || is_own_time(number);
}

static void answer_before(CPUPPCState *env, uint64_t machine, uint64_t pc, uint64_t word)
{
    struct trapline_machine *from = (struct trapline_machine *)(uintptr_t)machine;
    uint32_t number = is_own_time(NUMBER_OF(word)) ? SPR_VTBL : NUMBER_OF(word);
    uint64_t value = ~UINT64_C(0);

    env->nip = (target_ulong)pc;
    if (IS_RANDOM(word)) {
        drawn = value;
        from->register_in(from, RANDOM, &drawn);
    } else if (number == SPR_DECR && msr_pr) {
        return;
    } else if (IS_WRITE(word)) {
        from->register_out(from, number, env->gpr[word >> 21 & 31]);
    } else if (from->register_in(from, number, &value)) {
        env->spr[number] = (target_ulong)value;
    }
}

#if defined(TARGET_PPC64)
/* The priority that is encoded by the register that a hint names three times; 0: no hint, or not allowed to the
   user. */
static unsigned priority(CPUPPCState *env, unsigned register_number)
{
    static const uint8_t everybodys[32] = {[1] = 2, [6] = 3, [2] = 4}, kernels[32] = {[31] = 1, [5] = 5, [3] = 6, [7] = 7};
    return everybodys[register_number] ? everybodys[register_number] : msr_pr ? 0 : kernels[register_number];
}

static void hint(TCGContext *s, CPUPPCState *env, unsigned register_number)
{
    unsigned new = priority(env, register_number);
    TCGv_i64 all;

    if (new) {
        all = tcg_temp_new_i64(s);
        tcg_gen_ld_i64(s, all, s->cpu_env, offsetof(CPUPPCState, spr[SPR_PPR]));
        tcg_gen_andi_i64(s, all, all, ~UINT64_C(0x001c000000000000));
        tcg_gen_ori_i64(s, all, all, (uint64_t)new << 50);
        tcg_gen_st_i64(s, all, s->cpu_env, offsetof(CPUPPCState, spr[SPR_PPR]));
        tcg_temp_free_i64(s, all);
    }
}
#endif

/* Returns whether the instruction is completely handled here. */
static bool answered(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, CPUState *cpu)
{
    CPUPPCState *env = cpu->env_ptr;
    uint32_t word = cpu_ldl_code(env, db->pc_next);

    if (env->hflags & (1 << MSR_LE)) {
        word = bswap32(word);
    }
    if (IS_RANDOM(word) || ((IS_READ(word) || IS_WRITE(word)) && is_answered(NUMBER_OF(word)))) {
        call_ours_with(s, (void *)(uintptr_t)answer_before, "answer_before", machine, db->pc_next, word);
        return false;
    }
#if defined(TARGET_PPC64)
    /* For a single-stepped instruction, Unicorn must also raise the trace exception. */
    if (msr_se || msr_be) {
        return false;
    }
    if (IS_HINT(word) && (word >> 21 & 31) == (word >> 16 & 31) && (word >> 21 & 31) == (word >> 11 & 31) && (word >> 21 & 31) != 0) {
        hint(s, env, word >> 21 & 31);
        return true;
    }
#endif
    return false;
}
#define INSTRUCTION_BYTES 4
#endif

#if defined(TARGET_SPARC64)
#include "sparc64_refused.h"
#elif defined(TARGET_S390X)
#include "less_s390.h"
#endif

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
 * Instructions that Unicorn decodes but does not implement, silently: on z/Architecture those for clocks, the service
 * processor, channels and other CPUs, and the load of a PSW with the wait bit. The machine implements them. It gets an
 * exception with a number that no CPU has (unicorn/s390.rs), at the instruction, with the whole state written back.
 */
#ifdef TARGET_S390X
#define LEFT_TO_US 0x100

/*
 * The target of EXECUTE is a block of its own, at the address of EXECUTE. Its bytes are in a word of the state, with
 * the length of EXECUTE in the last four bits. It is a part of the EXECUTE instruction: it is not counted, and no
 * interrupt and no stop comes before it.
 */
static uint64_t executed(const TranslationBlock *tb)
{
    return tb->cs_base;
}

/* The first two bytes of the next instruction. */
static unsigned next_code(DisasContextBase *db, CPUState *cpu)
{
    uint64_t instead = executed(db->tb);
    return instead ? instead >> 48 : cpu_lduw_code(cpu->env_ptr, db->pc_next);
}

/* The length of an instruction that is left to the machine; 0 if Unicorn implements it, or refuses it to a user's
   program. */
static int left_to_us(DisasContextBase *db, CPUState *cpu)
{
    int supervisor = db->tb->flags & FLAG_MASK_PSTATE ? 0 : 4;
    unsigned code = next_code(db, cpu);

    switch (code >> 8) {
    case 0x82: /* LPSW */
    case 0x83: /* DIAGNOSE */
    case 0xae: /* SIGP */
        return supervisor;
    case 0xb2:
        break;
    case 0xc8: /* ECTG */
        return (code & 0xf) == 1 ? 6 : 0;
    default:
        return 0;
    }
    switch (code & 0xff) {
    case 0x05: /* STCK */
    case 0x78: /* STCKE */
    case 0x7c: /* STCKF */
    case 0xb0: /* STFLE */
        return 4;
    case 0x02: /* STIDP */
    case 0x04: /* SCK */
    case 0x06: /* SCKC */
    case 0x07: /* STCKC */
    case 0x08: /* SPT */
    case 0x09: /* STPT */
    case 0x12: /* STAP */
    case 0x20: /* SERVC */
    case 0x30: /* CSCH */
    case 0x31: /* HSCH */
    case 0x32: /* MSCH */
    case 0x33: /* SSCH */
    case 0x34: /* STSCH */
    case 0x35: /* TSCH */
    case 0x36: /* TPI */
    case 0x37: /* SAL */
    case 0x38: /* RSCH */
    case 0x39: /* STCRW */
    case 0x3a: /* STCPS */
    case 0x3b: /* RCHP */
    case 0x3c: /* SCHM */
    case 0x5f: /* CHSC */
    case 0x76: /* XSCH */
    case 0x7d: /* STSI */
    case 0xb1: /* STFL */
    case 0xb2: /* LPSWE */
        return supervisor;
    default:
        return 0;
    }
}

static bool records(const TranslationBlock *tb)
{
    return tb->flags & FLAG_MASK_PER;
}

#include "refused_s390.h"

static void hand_over(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, int length)
{
    TCGContext *s = cpu->uc->tcg_ctx;
    TCGv_i32 number;

    tcg_gen_insn_start(s, db->pc_next, CC_OP_DYNAMIC, length);
    ops->pc_sync(db, cpu);
    number = tcg_const_i32(s, LEFT_TO_US);
    gen_helper_exception(s, s->cpu_env, number);
    tcg_temp_free_i32(s, number);
    db->pc_next += length;
    db->is_jmp = DISAS_NORETURN;
}

/*
 * Control register 0 also selects the allowed interrupts, and the board must know it. So the machine is told when one
 * of the two instructions that load control registers has loaded this one.
 */
#define CONTROL_0 0xb700

static bool loads_control_0(DisasContextBase *db, CPUState *cpu)
{
    unsigned code = next_code(db, cpu), first = code >> 4 & 0xf, last = code & 0xf, low = 0x2f;

    if (db->tb->flags & FLAG_MASK_PSTATE || (code >> 8 != 0xb7 && code >> 8 != 0xeb)) {
        return false;
    }
    if (code >> 8 == 0xeb && !executed(db->tb)) {
        low = cpu_lduw_code(cpu->env_ptr, db->pc_next + 4) & 0xff;
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

static void tell_of_control_0(TCGContext *s, struct trapline_machine *machine, uint64_t pc)
{
    call_ours_with(s, (void *)(uintptr_t)control_0_loaded, "control_0_loaded", machine, pc, CONTROL_0);
}

/*
 * When the guest records its own code (PER), Unicorn raises the exception within the instruction and restores the CPU's
 * state from before it, except for its effects: the condition code and the target of a branch are lost. So a block of
 * recorded code has one instruction, and a recorded event is kept (calls.h) and raised before the next block, when the
 * whole state is written back. It is not raised between EXECUTE and its target.
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

static void tell_of_recorded(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
    if (records(tb) && !executed(tb)) {
        call_ours_with(s, (void *)(uintptr_t)raise_recorded, "raise_recorded", machine, tb->pc, PGM_PER);
    }
}

/*
 * The square root of a 128-bit number (SQXBR): Unicorn's table has no place for the second half of the result, and its
 * translator follows a null pointer. So it is translated here, as the first instruction of a block, where the condition
 * code is up to date. Invalid forms are left to Unicorn, which refuses them.
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
 * An undefined or privileged instruction ends its block with an exception, and Unicorn does not count it in the block's
 * size. Then a write to that instruction would not invalidate the block, so its size is added here.
 */
static void count_refused(DisasContextBase *db, CPUState *cpu, uint64_t pc)
{
    static const unsigned char lengths[4] = {2, 4, 4, 6};

    if (db->is_jmp == DISAS_NORETURN && db->pc_next == pc && !executed(db->tb)) {
        db->pc_next += lengths[next_code(db, cpu) >> 14];
    }
}
#else
static uint64_t executed(const TranslationBlock *tb)
{
    return 0;
}

static void count_refused(DisasContextBase *db, CPUState *cpu, uint64_t pc)
{
}

static bool loads_control_0(DisasContextBase *db, CPUState *cpu)
{
    return false;
}

static void tell_of_control_0(TCGContext *s, struct trapline_machine *machine, uint64_t pc)
{
}

/* On SPARC this only makes some instructions begin a block. */
static int left_to_us(DisasContextBase *db, CPUState *cpu)
{
#ifdef TARGET_SPARC64
    return db->num_insns > 1 && begins_block(cpu->uc->tcg_ctx, db, cpu);
#else
    return 0;
#endif
}

static void hand_over(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, int length)
{
}

static bool records(const TranslationBlock *tb)
{
    return false;
}

static void tell_of_recorded(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
}

static bool is_long_root(DisasContextBase *db, CPUState *cpu, unsigned *registers)
{
    return false;
}

static void long_root(TCGContext *s, DisasContextBase *db, unsigned registers)
{
}
#endif

/*
 * Whether there may be no room for one more instruction. Unicorn checks the operations only; its translator for MIPS
 * leaks a temporary at every instruction, and in a long straight run writes behind the table of temporaries.
 */
enum { TEMPORARIES_OF_ONE = 96 };

static bool is_full(TCGContext *s)
{
    return tcg_op_buf_full(s) || s->nb_temps > TCG_MAX_TEMPS - TEMPORARIES_OF_ONE;
}

static void translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    struct uc_struct *uc = cpu->uc;
    uint64_t pc;
    bool tells, root;
    unsigned registers;
    int left;

    ops->tb_start(db, cpu);
    do {
        pc = db->pc_next;
        tells = machine && loads_control_0(db, cpu);
        db->num_insns++;
        ops->insn_start(db, cpu);
        /* For the guest's own debug registers the translation may be the debug exception. */
        if (!db->singlestep_enabled) {
            meets_breakpoint(ops, db, cpu);
            if (db->is_jmp > DISAS_TOO_MANY) {
                break;
            }
        }
        if (machine) {
            uc->no_exit_request = true;
#ifdef TARGET_S390X
            switch (refuse_next(uc->tcg_ctx, machine, db, cpu)) {
            case NOT_REFUSED:
                break;
            case IN_FRONT_OF_IT:
                db->num_insns--;
                db->is_jmp = DISAS_TOO_MANY;
                goto end;
            case REFUSED:
                goto end;
            }
#endif
            left = left_to_us(db, cpu);
            root = is_long_root(db, cpu, &registers);
            if (left || root) {
                if (db->num_insns > 1) {
                    /* End the block before it, where the translator writes back its state. */
                    db->num_insns--;
                    db->is_jmp = DISAS_TOO_MANY;
                } else if (root) {
                    long_root(uc->tcg_ctx, db, registers);
                } else {
                    hand_over(ops, db, cpu, left);
                }
                break;
            }
        }
#ifdef INSTRUCTION_BYTES
        if (machine && answered(uc->tcg_ctx, machine, db, cpu)) {
            db->pc_next += INSTRUCTION_BYTES;
        } else
#endif
            ops->translate_insn(db, cpu);
        count_refused(db, cpu, pc);
        if (tells && db->is_jmp != DISAS_NORETURN) {
            tell_of_control_0(uc->tcg_ctx, machine, pc);
        }
        if (db->is_jmp == DISAS_NEXT && (is_full(uc->tcg_ctx) || db->num_insns >= db->max_insns)) {
            db->is_jmp = DISAS_TOO_MANY;
        }
    } while (db->is_jmp == DISAS_NEXT);
#ifdef TARGET_S390X
end:
#endif
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
    TCGv_i64 count;

    *db = (DisasContextBase){
        .tb = tb,
        .pc_first = tb->pc,
        .pc_next = tb->pc,
        .is_jmp = DISAS_NEXT,
        .max_insns = max_insns,
        .singlestep_enabled = cpu->singlestep_enabled,
    };
    ops->init_disas_context(db, cpu);

    if (machine == NULL) {
        gen_tb_start(s, tb);
        translate(ops, db, cpu, NULL);
        gen_tb_end(s, tb, db->num_insns);
        hooked_regions_check(uc, tb->pc, tb->size);
        return;
    }

    uc->memory_mapping = mapping_of;
    drop_checks(s);
    leave = gen_new_label(s);
    tell_of_recorded(s, machine, tb);
    if (records(tb)) {
        db->max_insns = 1;
    }
    if (max_insns == 1 && !executed(tb)) {
        cut_short(s, tb->pc);
    }
    if (executed(tb)) {
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
    translate(ops, db, cpu, machine);
    call_ours(s, machine, tb->cs_base);
    stay(s);
#ifdef TARGET_AARCH64
    ask_less(s, machine);
#elif defined(TARGET_S390X)
    do_less(s, records(tb));
#endif
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

/* The next number of the table behind a block's code, which maps host code to instructions: signed, seven bits in
   each byte. */
static int64_t next_number(const uint8_t **at)
{
    uint64_t value = 0;
    unsigned bits = 0;
    uint8_t byte;

    do {
        byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << bits;
        bits += 7;
    } while (byte & 0x80);
    if (bits < 64 && byte & 0x40) {
        value |= ~UINT64_C(0) << bits;
    }
    return value;
}

/*
 * Finds the address of the instruction that a host address in translated code belongs to. Unicorn can restore the whole
 * CPU to that instruction, but on ARM that overwrites the syndrome of the last exception.
 */
static bool pc_of_host(CPUState *cpu, uintptr_t host, uint64_t *pc)
{
    TCGContext *s = cpu->uc->tcg_ctx;
    uintptr_t wanted = host - GETPC_ADJ;
    TranslationBlock *tb;
    const uint8_t *table;
    uintptr_t end;
    uint64_t address;

    if (host - (uintptr_t)s->code_gen_buffer >= s->code_gen_buffer_size) {
        return false;
    }
    tb = tcg_tb_lookup(s, host);
    if (tb == NULL) {
        return false;
    }
    table = (const uint8_t *)tb->tc.ptr + tb->tc.size;
    end = (uintptr_t)tb->tc.ptr;
    address = tb->pc;
    for (int insn = 0; insn < tb->icount; insn++) {
        address += next_number(&table);
        for (int other = 1; other < TARGET_INSN_START_WORDS; other++) {
            next_number(&table);
        }
        end += next_number(&table);
        if (end > wanted) {
            *pc = (target_ulong)address;
            return true;
        }
    }
    return false;
}

/* The address of the instruction whose device access is in progress. */
static bool device_access_pc(CPUState *cpu, uint64_t *pc)
{
    return pc_of_host(cpu, cpu->mem_io_pc, pc);
}

#ifdef TARGET_SPARC64
#include "sparc64.h"
#else
static void make_ready(struct uc_struct *uc)
{
}
#endif

#ifdef TARGET_MIPS
#include "mips.h"
#else
static size_t beside_bytes(CPUState *cpu)
{
    return 0;
}

static void save_beside(CPUState *cpu, void *to)
{
}

static void load_beside(CPUState *cpu, const void *from)
{
}
#endif

/* The layout of this target's CPU, for unicorn/line.rs. */
const struct {
    size_t engine_to_cpu;
    size_t cpu_to_engine;
    size_t cpu_to_state;
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
} TRAPLINE_LAYOUT = {
    offsetof(struct uc_struct, cpu),
    offsetof(CPUState, uc),
    offsetof(ArchCPU, env),
    START,
    offsetof(CPUState, cc),
    offsetof(CPUClass, tlb_fill),
    device_access_pc,
    beside_bytes,
    save_beside,
    load_beside,
    sizeof(struct found),
    walk,
    kept,
    choose_size,
    holds_code,
    release,
    make_ready,
};
