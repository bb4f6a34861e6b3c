/*
 * Finds the guest's pc for a host address in translated code. It is needed for each device access and each report of a
 * watched access, so the last result is cached. Part of loop.c.
 */

/* Reads a number, in signed LEB128, of the table that the translator puts behind a block's code. For each guest instruction the
   table has the differences of its pc, its other words, and the end of its host code. */
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
 * The block that the last call of block_of_host found, and the instruction in it that the last search ended at. Both lie in
 * `jmp_env` of the CPU behind the pointer to the watched pages. A block's memory stays as it is until all blocks are dropped,
 * which Unicorn counts.
 */
struct last_block {
    TranslationBlock *tb;
    uint64_t flushes;
    /* The table's place behind the instruction, and the number of instructions before that place. */
    const uint8_t *table;
    uint64_t insns;
    /* The instruction's address and the bounds of its host code. */
    uint64_t address;
    uintptr_t start;
    uintptr_t end;
};
#define LAST_BLOCK_PLACE 72
#define LAST_BLOCK(cpu) ((struct last_block *)((char *)&(cpu)->jmp_env + LAST_BLOCK_PLACE))
QEMU_BUILD_BUG_ON(sizeof(((CPUState *)NULL)->jmp_env) < LAST_BLOCK_PLACE + sizeof(struct last_block));

/* Searches of the block begin at its first instruction again. */
static void search_from_start(struct last_block *last)
{
    last->table = (const uint8_t *)last->tb->tc.ptr + last->tb->tc.size;
    last->insns = 0;
    last->address = last->tb->pc;
    last->start = last->end = (uintptr_t)last->tb->tc.ptr;
}

/* The block that has this host address. NULL: none. Unicorn's search goes through a tree of all blocks. */
static TranslationBlock *block_of_host(CPUState *cpu, uintptr_t host)
{
    TCGContext *s = cpu->uc->tcg_ctx;
    struct last_block *last = LAST_BLOCK(cpu);

    if (last->tb == NULL || last->flushes != s->tb_ctx.tb_flush_count ||
        host - (uintptr_t)last->tb->tc.ptr >= last->tb->tc.size) {
        last->tb = tcg_tb_lookup(s, host);
        last->flushes = s->tb_ctx.tb_flush_count;
        if (last->tb != NULL) {
            search_from_start(last);
        }
    }
    return last->tb;
}

/*
 * Finds the address of the instruction that this host address belongs to. False: it lies in no block. Unicorn's
 * `cpu_restore_state` finds it too, but on ARM it overwrites the syndrome of the last exception.
 */
static bool pc_of_host(CPUState *cpu, uintptr_t host, uint64_t *pc)
{
    TCGContext *s = cpu->uc->tcg_ctx;
    struct last_block *last = LAST_BLOCK(cpu);
    uintptr_t wanted = host - GETPC_ADJ;

    if (host - (uintptr_t)s->code_gen_buffer >= s->code_gen_buffer_size || block_of_host(cpu, host) == NULL) {
        return false;
    }
    if (wanted < last->start) {
        search_from_start(last);
    }
    while (last->insns == 0 || wanted >= last->end) {
        if (last->insns == last->tb->icount) {
            return false;
        }
        last->start = last->end;
        last->address += next_number(&last->table);
        for (int other = 1; other < TARGET_INSN_START_WORDS; other++) {
            next_number(&last->table);
        }
        last->end += next_number(&last->table);
        last->insns += 1;
    }
    *pc = (target_ulong)last->address;
    return true;
}
