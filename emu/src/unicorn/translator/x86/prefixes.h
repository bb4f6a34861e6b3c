/*
 * Reads the prefixes of the next x86 instruction, for the checks in ports.h and locked.h. A part of x86/hooks.h.
 */
enum { LONGEST_INSTRUCTION = 15 };

struct prefixes {
    /* The number of prefix bytes, REX included. From LONGEST_INSTRUCTION on there is no instruction. */
    int length;
    /* The byte behind them. */
    uint32_t opcode;
    bool has_lock;
    /* Whether operands have 32 or 64 bits, and not 16. */
    bool is_wide;
};

static uint32_t next_byte(DisasContextBase *db, CPUState *cpu, int number)
{
    return cpu_ldub_code(cpu->env_ptr, db->pc_next + number);
}

static struct prefixes read_prefixes(DisasContextBase *db, CPUState *cpu)
{
    const bool long_mode = db->tb->flags & HF_CS64_MASK, is_usual = db->tb->flags & HF_CS32_MASK;
    struct prefixes found = { .is_wide = is_usual };
    bool is_widest = false;

    for (; found.length < LONGEST_INSTRUCTION; found.length++) {
        found.opcode = next_byte(db, cpu, found.length);
        switch (found.opcode) {
        case 0x66:
            found.is_wide = !is_usual;
            continue;
        case 0xf0:
            found.has_lock = true;
            continue;
        case 0x67:
        case 0xf2:
        case 0xf3:
        case 0x26:
        case 0x2e:
        case 0x36:
        case 0x3e:
        case 0x64:
        case 0x65:
            continue;
        default:
            if (!long_mode || (found.opcode & 0xf0) != 0x40) {
                found.is_wide |= is_widest;
                return found;
            }
            is_widest = found.opcode & 8;
        }
    }
    return found;
}
