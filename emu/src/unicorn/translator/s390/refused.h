/*
 * Instructions of z/Architecture that Unicorn translates wrongly or must not translate (docs/unicorn.md,
 * "z/Architecture"); a part of loop.c.
 *
 * Access-register mode: each access has its own address space, named by an access register. Unicorn does not have this
 * mode: its translator, and its look-up of a data space, end the process. A kernel can enter the mode by any PSW that
 * it loads, a program by the PSW of a signal frame. Here each instruction in this mode is a special-operation
 * exception, which Linux turns into a signal for the program.
 *
 * RNSBG, ROSBG and RXSBG that only set the condition code: Unicorn's code for them reads a value that was never
 * written, at which its compiler ends the process. Any program could run one. They are implemented here.
 *
 * Register pairs: TROO and similar instructions and CDSG use a register and the next one, and Unicorn does not check
 * that the next one exists. An odd number is a specification exception, as on a CPU.
 */
static bool needs_access_registers(const TranslationBlock *tb)
{
    return (tb->flags & (FLAG_MASK_DAT | FLAG_MASK_ASC)) == (FLAG_MASK_DAT | PSW_ASC_ACCREG >> FLAG_MASK_PSW_SHIFT);
}

/* A byte of the next instruction, or of the target of EXECUTE. */
static unsigned code_byte(DisasContextBase *db, CPUState *cpu, unsigned number)
{
    uint64_t instead = executed(db->tb);
    return instead ? instead >> (56 - 8 * number) & 0xff : cpu_ldub_code(cpu->env_ptr, db->pc_next + number);
}

static bool has_odd_pair(DisasContextBase *db, CPUState *cpu, unsigned code)
{
    if (code >= 0xb990 && code <= 0xb993) {
        return code_byte(db, cpu, 3) & 0x10;
    }
    return code >> 8 == 0xeb && code & 0x11 && code_byte(db, cpu, 5) == 0x3e;
}

/* `what` is the interruption code, with the length of the instruction in the bits above it. */
static void raise_program(CPUS390XState *env, uint64_t machine, uint64_t pc, uint64_t what)
{
    CPUState *cpu = env_cpu(env);

    env->psw.addr = pc;
    env->int_pgm_code = what & 0xffff;
    env->int_pgm_ilen = (uint32_t)(what >> 16);
    cpu->exception_index = EXCP_PGM;
    cpu_loop_exit(cpu);
}

/* Whether it is RNSBG, ROSBG or RXSBG with the bit that leaves the registers unchanged. */
static bool is_test_of_bits(DisasContextBase *db, CPUState *cpu, unsigned code)
{
    unsigned operation;

    if (code >> 8 != 0xec) {
        return false;
    }
    operation = code_byte(db, cpu, 5);
    return (operation == 0x54 || operation == 0x56 || operation == 0x57) && code_byte(db, cpu, 2) & 0x80;
}

static void test_bits(CPUS390XState *env, uint64_t machine, uint64_t pc, uint64_t bytes)
{
    unsigned first = bytes >> 24 & 63, last = bytes >> 16 & 63, by = bytes >> 8 & 63;
    uint64_t from = ~UINT64_C(0) >> first, to = ~UINT64_C(0) << (63 - last);
    uint64_t selected = first <= last ? from & to : from | to;
    uint64_t one = env->regs[bytes >> 36 & 15], other = env->regs[bytes >> 32 & 15];

    other = by ? other << by | other >> (64 - by) : other;
    switch (bytes & 0xff) {
    case 0x54:
        one &= other;
        break;
    case 0x56:
        one |= other;
        break;
    default:
        one ^= other;
    }
    env->cc_op = (one & selected) != 0;
}

/* Handles the next instruction if it is one of these. It must be the first of a block, where the whole state is
   written back. */
static enum translated refuse_next(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, CPUState *cpu)
{
    static const unsigned char lengths[4] = {2, 4, 4, 6};
    unsigned code = next_code(db, cpu);
    uint64_t why = needs_access_registers(db->tb) ? PGM_SPECIAL_OP : has_odd_pair(db, cpu, code) ? PGM_SPECIFICATION : 0;

    bool tests = !why && is_test_of_bits(db, cpu, code);

    if (!why && !tests) {
        return BY_THE_LIBRARY;
    }
    if (db->num_insns > 1) {
        return IN_NEXT_BLOCK;
    }
    if (tests) {
        TCGv_i64 number = tcg_const_i64(s, db->pc_next);

        for (unsigned n = 0; n < 6; n++) {
            why = why << 8 | code_byte(db, cpu, n);
        }
        if (records(db->tb)) {
            gen_helper_per_ifetch(s, s->cpu_env, number);
        }
        tcg_gen_movi_i64(s, number, 0);
        if (executed(db->tb)) {
            tcg_gen_st_i64(s, number, s->cpu_env, offsetof(CPUS390XState, ex_value));
        }
        tcg_temp_free_i64(s, number);
        call_with_machine(s, (void *)(uintptr_t)test_bits, "test_bits", machine, db->pc_next, why);
        db->pc_next += executed(db->tb) ? executed(db->tb) & 0xf : 6;
        db->is_jmp = DISAS_TOO_MANY;
        return BY_US;
    }
    why |= (uint64_t)(executed(db->tb) ? executed(db->tb) & 0xf : lengths[code >> 14]) << 16;
    call_with_machine(s, (void *)(uintptr_t)raise_program, "raise_program", machine, db->pc_next, why);
    db->pc_next += lengths[code >> 14];
    db->is_jmp = DISAS_NORETURN;
    return BY_US;
}
