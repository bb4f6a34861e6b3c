/*
 * Instructions of 64-bit SPARC that Unicorn's translator handles wrongly (docs/unicorn.md, "SPARC"). Part of loop.c.
 *
 * Branches and moves on a register's value (BPr, MOVr, FMOVr) have eight conditions, two of which are reserved. Unicorn
 * looks them up in a table without such entries, and its compiler ends the process. Here they raise illegal_instruction,
 * as on a CPU.
 *
 * A branch in the delay slot of a conditional or indirect branch is translated before the first branch's target is known.
 * Unicorn then uses its marker for an unknown target as an address. So the second branch begins a block of its own.
 *
 * After logic operations and divisions in the same block, Unicorn knows that there is no carry and translates addccc and
 * subccc without it. Then it computes the new condition codes as those of a logic operation, with no carry and no
 * overflow. Unicorn translates addccc and subccc rightly at the start of a block, so they always begin one.
 */
enum { INSTRUCTION_BYTES = 4 };

/* Whether the instruction is a branch or move on a register's value with a reserved condition or, for a branch, with the
   reserved bit 28 set. */
static bool has_reserved_bits(uint32_t word)
{
    uint32_t op3 = word >> 19 & 0x3f, by_register = word >> 10 & 3;

    switch (word >> 30) {
    case 0:
        return (word >> 22 & 7) == 3 && ((word >> 25 & 3) == 0 || word >> 28 & 1);
    case 2:
        /* MOVr, and FMOVr of the three sizes of floating-point registers. */
        return by_register == 0 && (op3 == 0x2f || (op3 == 0x35 && (word & 0x23e0) >= 0x00a0 && (word & 0x23e0) <= 0x00e0));
    default:
        return false;
    }
}

static bool is_branch(uint32_t word)
{
    uint32_t op2 = word >> 22 & 7, op3 = word >> 19 & 0x3f;

    switch (word >> 30) {
    case 0:
        return op2 != 0 && op2 != 4 && op2 != 7;
    case 1:
        return true;
    case 2:
        return op3 == 0x38 || op3 == 0x39;
    default:
        return false;
    }
}

/* addccc, subccc */
static bool sets_codes_by_carry(uint32_t word)
{
    return (word & 0xc1d80000) == 0x80c00000;
}

/* Whether the address space (ASI) is one for loads of 128 bits, which only LDDA may use. */
static bool is_of_128_bits(unsigned space)
{
    switch (space) {
    case 0x22: case 0x23: case 0x24: case 0x26: case 0x27: case 0x2a: case 0x2b: case 0x2c: case 0x2e: case 0x2f:
    case 0x34: case 0x3c: case 0xe2: case 0xe3: case 0xea: case 0xeb:
        return true;
    default:
        return false;
    }
}

/* Whether the instruction is a floating-point access, LDSTUBA or SWAPA with such a space. Unicorn calls a helper for
   them that ends the process. */
static bool misses_128_bits(uint32_t word, const TranslationBlock *tb)
{
    uint32_t op3 = word >> 19 & 0x3f;
    unsigned space = word & 1 << 13 ? tb->flags >> TB_FLAG_ASI_SHIFT & 0xff : word >> 5 & 0xff;

    return word >> 30 == 3 && (op3 == 0x1d || op3 == 0x1f || (op3 >= 0x30 && op3 <= 0x37)) && is_of_128_bits(space);
}

/* Whether the instruction must be the first of its block. Unicorn has just emitted insn_start, with the pc and npc as its
   arguments. An npc that is not known during translation is a marker with one of the two low bits set. */
static bool begins_block(TCGContext *s, DisasContextBase *db, CPUState *cpu)
{
    TCGOp *start = tcg_last_op(s);
    bool is_known = start->opc != INDEX_op_insn_start || (start->args[1] & 3) == 0;
    uint32_t word = cpu_ldl_code(cpu->env_ptr, db->pc_next);

    return sets_codes_by_carry(word) || (!is_known && is_branch(word));
}

/* Called by translated code in place of a refused instruction. */
static void refuse(CPUSPARCState *env)
{
    cpu_raise_exception_ra(env, TT_ILL_INSN, GETPC());
}

static enum translated target_translate(const TranslatorOps *ops, DisasContextBase *db, CPUState *cpu, struct trapline_machine *machine)
{
    TCGContext *s = cpu->uc->tcg_ctx;
    TCGTemp *state = tcgv_ptr_temp(s, s->cpu_env);
    uint32_t word;

    if (db->num_insns > 1 && begins_block(s, db, cpu)) {
        return IN_NEXT_BLOCK;
    }
    word = cpu_ldl_code(cpu->env_ptr, db->pc_next);
    if (!has_reserved_bits(word) && !misses_128_bits(word, db->tb)) {
        return BY_THE_LIBRARY;
    }
    know(s, (void *)(uintptr_t)refuse, "refuse", 0, dh_sizemask(void, 0) | dh_sizemask(env, 1));
    tcg_gen_callN(s, (void *)(uintptr_t)refuse, NULL, 1, &state);
    db->is_jmp = DISAS_NORETURN;
    db->pc_next += INSTRUCTION_BYTES;
    return BY_US;
}
#define target_translate target_translate
