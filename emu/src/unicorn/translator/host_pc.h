/*
 * The guest's pc of a place in translated code. Part of loop.c.
 */

/* The next number of the table behind a block's code, a signed LEB128. The table says which host code belongs to which
   guest instruction. */
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
 * Finds the address of the instruction that this host address belongs to. False: it lies in no block. The library's
 * `cpu_restore_state` finds it too, but on ARM it overwrites the syndrome of the last exception.
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

/* The pc of the instruction whose device access is being answered. */
static bool device_access_pc(CPUState *cpu, uint64_t *pc)
{
    return pc_of_host(cpu, cpu->mem_io_pc, pc);
}
