/*
 * The LOCK prefix (docs/unicorn.md, "The LOCK prefix of x86"). A part of x86/hooks.h.
 *
 * A CPU accepts LOCK in front of a few instructions that read, change and write memory, and raises #UD for all others.
 * Unicorn's translator, 2.1.5, checks some of these. It executes others as if there were no prefix, and for BT, BTS, BTR
 * and BTC of a register it emits code that reads an address that was never computed, at which its compiler ends the
 * process (`do_btx` in translate.c).
 */
static uint32_t modrm_reg(uint32_t modrm)
{
    return modrm >> 3 & 7;
}

/* Whether the instruction may have the prefix if its operand is in memory; `modrm` is the byte behind the opcode. */
static bool may_lock(uint32_t opcode, bool is_two_byte, bool is_long_mode, uint32_t modrm)
{
    uint32_t reg = modrm_reg(modrm);

    if (is_two_byte) {
        switch (opcode) {
        case 0xab: /* bts */
        case 0xb3: /* btr */
        case 0xbb: /* btc */
        case 0xb0: /* cmpxchg */
        case 0xb1:
        case 0xc0: /* xadd */
        case 0xc1:
            return true;
        case 0xba: /* bts, btr, btc of an immediate */
            return reg >= 5;
        case 0xc7: /* cmpxchg8b */
            return reg == 1;
        default:
            return false;
        }
    }
    switch (opcode) {
    case 0x86: /* xchg */
    case 0x87:
        return true;
    case 0x82:
        return !is_long_mode && reg != 7;
    case 0x80: /* add, or, adc, sbb, and, sub, xor of an immediate; not cmp */
    case 0x81:
    case 0x83:
        return reg != 7;
    case 0xf6: /* not, neg */
    case 0xf7:
        return reg == 2 || reg == 3;
    case 0xfe: /* inc, dec */
    case 0xff:
        return reg <= 1;
    default: /* the same operations, of a register */
        return opcode < 0x38 && (opcode & 6) == 0;
    }
}

/* Whether the next instruction has a LOCK prefix that it must not have. It reads no byte behind the instruction. */
static bool has_wrong_lock(DisasContextBase *db, CPUState *cpu)
{
    const bool is_long_mode = db->tb->flags & HF_CS64_MASK;
    struct prefixes found = read_prefixes(db, cpu);
    uint32_t opcode, modrm;
    bool is_two_byte;
    int place;

    if (!found.has_lock || found.length >= LONGEST_INSTRUCTION) {
        return false;
    }
    is_two_byte = found.opcode == 0x0f;
    place = found.length + is_two_byte;
    opcode = is_two_byte ? next_byte(db, cpu, place) : found.opcode;
    /* MOV of control registers: Unicorn knows what LOCK means there. */
    if (is_two_byte && (opcode == 0x20 || opcode == 0x22)) {
        return false;
    }
    /*
     * Opcodes that never take LOCK may be the last byte of a page, so their ModRM byte is not read. An opcode that takes it
     * does so for at least one of the fields 1 (inc, cmpxchg8b), 2 (not) and 5 (bts of an immediate).
     */
    if (!may_lock(opcode, is_two_byte, false, 1 << 3) && !may_lock(opcode, is_two_byte, false, 2 << 3) && !may_lock(opcode, is_two_byte, false, 5 << 3)) {
        return true;
    }
    modrm = next_byte(db, cpu, place + 1);
    return modrm >> 6 == 3 || !may_lock(opcode, is_two_byte, is_long_mode, modrm);
}

static void refuse(CPUX86State *env, uint64_t machine, uint64_t pc, uint64_t unused)
{
    AS_BEFORE(env);
    raise_exception_err(env, EXCP06_ILLOP, 0);
}

/* Emits #UD in place of the next instruction if its LOCK prefix is wrong. */
static bool refuse_lock(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, CPUState *cpu)
{
    if (!has_wrong_lock(db, cpu)) {
        return false;
    }
    call_with_machine(s, (void *)(uintptr_t)refuse, "refuse", machine, db->pc_next, 0);
    /* A block has at least one byte of each instruction. */
    db->pc_next++;
    db->is_jmp = DISAS_NORETURN;
    return true;
}
