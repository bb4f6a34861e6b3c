/*
 * Time, random numbers and the decrementer on PowerPC, 32 and 64 bits (docs/unicorn.md, "PowerPC"). Part of hooks.h.
 *
 * Unicorn's PowerPC target does not advance time, and `darn` returns host randomness. Code in front of such an instruction
 * asks the machine for the value and stores it in the field that the instruction then reads. A write of the decrementer is
 * reported to the machine in the same way.
 */

/* The random number for the `darn` that is about to be executed. */
static __thread uint64_t drawn;

/* Number of the special register that the instruction word names. */
#define NUMBER_OF(word) (((word) >> 16 & 0x1f) | ((word) >> 6 & 0x3e0))
/* mfspr and mftb */
#define IS_READ(word) (((word) & 0xfc0007fe) == 0x7c0002a6 || ((word) & 0xfc0007fe) == 0x7c0002e6)
/* mtspr */
#define IS_WRITE(word) (((word) & 0xfc0007fe) == 0x7c0003a6)
/* darn */
#define IS_RANDOM(word) (((word) & 0xfc1cffff) == 0x7c0005e6)
/* The number by which the machine is asked for a random number: above all special registers (cpu/ppc/state.rs). */
#define RANDOM 1024
#define INSTRUCTION_BYTES 4

/* PURR, SPURR and VTB: time that this hardware thread got. No thread shares its core here, so they equal the time base. */
static bool is_own_time(uint32_t number)
{
    return number == SPR_PURR || number == SPR_SPURR || number == SPR_VTB;
}

static bool is_answered(uint32_t number)
{
    return number == SPR_DECR || number == SPR_VTBL || number == SPR_VTBU || is_own_time(number);
}

/* Called in front of the instruction. */
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

/* The instruction word at `pc_next`. */
static uint32_t next_word(DisasContextBase *db, CPUState *cpu)
{
    CPUPPCState *env = cpu->env_ptr;
    uint32_t word = cpu_ldl_code(env, db->pc_next);

    return env->hflags & (1 << MSR_LE) ? bswap32(word) : word;
}

/* Emits a call of `answer_before` in front of an instruction that needs it. Returns whether it did. */
static bool ask_before(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, uint32_t word)
{
    if (!IS_RANDOM(word) && !((IS_READ(word) || IS_WRITE(word)) && is_answered(NUMBER_OF(word)))) {
        return false;
    }
    call_with_machine(s, (void *)(uintptr_t)answer_before, "answer_before", machine, db->pc_next, word);
    return true;
}
