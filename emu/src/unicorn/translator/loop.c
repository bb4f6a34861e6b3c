/*
 * How a block of guest code is translated, in place of the library's own loop (docs/unicorn.md, "Our own start of a
 * block").
 *
 * The library calls a callback at the start of every block and a helper behind every load and store. All that a clock
 * which counts bytes of code needs of the first is an addition, and nothing of ours needs the second. So a block begins
 * here with the addition, and calls only when its time has come; the call stands behind the block, out of the way:
 *
 *          count >= 0 ? ----------------> slow:  call the block callback
 *          count += bytes of the block           told to stop? ---> leave
 *          start = its address                   else back to `body`
 *          size  = bytes of the block                  |
 *   body:  the block  <--------------------------------+
 *
 * The three words belong to the machine's clock (unicorn/line.rs). Whoever is called counts; where nobody is called,
 * the code has counted. A block that the machine always wants to hear of has the call in place of the counting.
 *
 * An engine without a block callback is nobody's machine: its code is what the library would make of it.
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

/* What the block callback is given begins with this (unicorn/engine.rs). */
struct trapline_machine {
    bool (*always_wants)(struct trapline_machine *machine, uint64_t pc);
    bool (*answers)(struct trapline_machine *machine, uint32_t reg);
    /* A register of the CPU, by the number that instructions have for it, is read or written by the instruction at
       the pc: whether it is the machine's to answer for. */
    bool (*register_in)(struct trapline_machine *machine, uint32_t number, uint64_t *value);
    bool (*register_out)(struct trapline_machine *machine, uint32_t number, uint64_t value);
    /* Zeroes in the beginning, and nobody else's. */
    struct found *found;
};

/* Translated code reaches all of the CPU from its architectural state. */
#define FROM_STATE(field) ((long)(field) - (long)offsetof(ArchCPU, env))

/*
 * The three words lie where a CPU keeps its way out of all code, which this library keeps elsewhere. There they lie
 * well: some processors take a store at one distance from the register in which translated code has its CPU for a store
 * at another distance, if the two differ by a multiple of 1,024 bytes, and let a load from there wait for it. These
 * words are stored in every block; so nothing that a guest's program loads in every block may lie at such a distance:
 * not its registers, which the state begins with, and not where its translations of addresses are, which end in front
 * of it.
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

/* Lets calls of a function of ours be made, by the name and what it takes. */
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

/* Keeps the call from being the last thing done, by which it would return where this does. */
#define HERE __asm__ volatile("" ::: "memory")

#include "sizes.h"
#include "outlive.h"
#include "segments.h"
#include "jumps.h"
#include "calls.h"

/*
 * Nobody asks a running block to end: so the helper that looks whether somebody has done so is called for nothing. The
 * translators leave it out while `no_exit_request` is set, but that of Thumb code sets and clears this itself; so the
 * compiler is told that the helper has no effects, too, and drops calls of it.
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
 * What is mapped at a physical address, which the library asks at each access that it has no translation for, by a walk
 * through its tree of mappings. A machine has a handful of them, none inside another.
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

/* Calls the block callback with the pc at the block's start, and leaves if it says so. */
static TCGOp *call(TCGContext *s, const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, TCGLabel *leave)
{
    TCGv_i32 request;
    TCGOp *before, *size;

    ops->pc_sync(db, cpu);
    before = tcg_last_op(s);
    gen_uc_tracecode(s, 0, UC_HOOK_BLOCK_IDX, cpu->uc, db->pc_first);
    /* The first argument that it prepares. */
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

/* Adds the block to the three words; the operation that holds its size. */
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
 * With a block of one instruction the CPU goes on where a block has written into itself, at the instruction that did
 * so, which is done again: less of that block has run than was counted. Nothing changes if it does not lie in the block
 * before it.
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

/* Puts the operations behind `before`, up to `last`, behind all others. */
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
/* Calls a function of ours with the state, the machine, the address of the instruction and another number. */
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
 * Of PowerPC this library lets no time pass and has random numbers of the host: so what reads the time or such a
 * number, or sets the decrementer, first asks the machine. Its answer is put where the instruction then finds it. Hints
 * of priority, which the library takes for the end of a run, do here what they do to the register that holds the
 * priority, and no more.
 */
#define NUMBER_OF(word) (((word) >> 16 & 0x1f) | ((word) >> 6 & 0x3e0))
#define IS_READ(word) (((word) & 0xfc0007fe) == 0x7c0002a6 || ((word) & 0xfc0007fe) == 0x7c0002e6)
#define IS_WRITE(word) (((word) & 0xfc0007fe) == 0x7c0003a6)
#define IS_RANDOM(word) (((word) & 0xfc1cffff) == 0x7c0005e6)
#define IS_HINT(word) (((word) & 0xfc0007ff) == 0x7c000378)
/* Behind the numbers of all others (cpu/ppc/state.rs). */
#define RANDOM 1024

/* They count as the time base does: time of this CPU's own, while nothing is shared. */
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
/* By the number of the register that the hint names three times; 0: none of these, or not the user's to set. */
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

/* True: that was all of the instruction. */
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
    /* Of a stepped instruction the library makes the step, too. */
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
 * Instructions that the library decodes and does nothing of, without a word: on z/Architecture those of clocks, of the
 * service processor, of channels and of other CPUs, and the load of a PSW that waits. The machine is to do them, and is
 * told by an exception of a number that no CPU has (unicorn/s390.rs), at the instruction, with all of the state written
 * back.
 */
#ifdef TARGET_S390X
#define LEFT_TO_US 0x100

/*
 * What EXECUTE executes is a block of its own, at the address of EXECUTE, and stands in a word of the state: its bytes,
 * and in the last four bits the length of EXECUTE. It is a part of that instruction: it counts nothing, and nothing is
 * taken or stopped in front of it.
 */
static uint64_t executed(const TranslationBlock *tb)
{
    return tb->cs_base;
}

/* The first two bytes of the instruction that comes next. */
static unsigned next_code(DisasContextBase *db, CPUState *cpu)
{
    uint64_t instead = executed(db->tb);
    return instead ? instead >> 48 : cpu_lduw_code(cpu->env_ptr, db->pc_next);
}

/* Bytes of the instruction, if it is one of these; 0 if the library does it, or refuses it to a user's program. */
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
 * Which interrupts are let in says control register 0, too, and the board decides which of them it asks for: so it is
 * told when one of the two instructions that load control registers has loaded this one.
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
 * The guest records its own code (PER): the library raises that exception within the instruction, and for that puts the
 * CPU back to where it was in front of it, but for what it has done: the condition code is lost, and where a branch has
 * led. So a block of recorded code has one instruction, what it has recorded waits (calls.h), and is raised in front of
 * the next one, when all of the state is written back. Between EXECUTE and what it executes is no such place.
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
 * The root of a number of 128 bits (SQXBR): the library's table has no place for the second half of its result, and its
 * translator follows a null pointer. So it is translated here, first in its block, where the condition code is worked
 * out. What is refused of it the library refuses.
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
 * What is no instruction, or is refused to whoever runs it, ends its block as an exception, and the library leaves it
 * out of the block's bytes: whoever overwrites it would meet the old block still.
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

/* Of SPARC nothing but that it is not to stand behind others in a block. */
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
 * Whether there may be no room for one more instruction. The library looks at the operations alone; its translator for
 * MIPS forgets to give a temporary back for every instruction, and writes behind the table of these in a long straight
 * run.
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
        /* The guest's own debug registers: the instruction's translation may be the exception. */
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
                    /* In front of it, where the translator writes back what it holds. */
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
        /* Neither counted nor told. */
    } else if (machine->always_wants(machine, tb->pc)) {
        told = call(s, ops, db, cpu, leave);
    } else {
        slow = gen_new_label(s);
        body = gen_new_label(s);
        count = load_count(s);
        tcg_gen_brcondi_i64(s, TCG_COND_GE, count, 0, slow);
        tcg_temp_free_i64(s, count);
        branch = tcg_last_op(s);
        /* Written here, where the translator's state is that of the block's start; moved when the block is behind
           it. */
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
    /* In front of the block, which has not run. */
    gen_set_label(s, leave);
    gen_tb_end(s, tb, db->num_insns);
    hooked_regions_check(uc, tb->pc, tb->size);
}

void translator_loop_temp_check(DisasContextBase *db)
{
    /* Temporaries are all forgotten when the block is done. */
}

/* A number of the table behind a block's code that says which of it belongs to which instruction: seven bits a byte,
   the sign in the last. */
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
 * Whether the address of the instruction is known that this place in translated code belongs to; if so, that. The
 * library can put the whole CPU back to that instruction, but on ARM that overwrites the syndrome of the last
 * exception.
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

/* The instruction whose access to a device is being answered. */
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

/* Where things are in this target's CPU, for unicorn/line.rs. */
const struct {
    size_t engine_to_cpu;
    size_t cpu_to_engine;
    size_t cpu_to_state;
    size_t cpu_to_line;
    /* Where a CPU has the pointer to its table of functions, and where that has the one that fills in a translation. */
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
