/*
 * I/O permission checks (docs/unicorn.md, "Ports of x86"). A part of x86/hooks.h.
 *
 * Unicorn lets every program access every port: `gen_check_io` of its translate.c, 2.1.5, returns at once. A CPU checks the
 * TSS's I/O bitmap if CPL is above IOPL, and always in virtual-8086 mode. CPL, IOPL and VM are in the flags of a block, so
 * only blocks that need the check contain it. The check comes before the instruction: a refused one has accessed neither
 * the port nor memory.
 */
enum {
    /* Fields of an access: its size in bytes, a flag for a port in the instruction, and that port. */
    ACCESS_BYTES = 7,
    ACCESS_NAMED = 8,
    ACCESS_PORT = 8,
};

/* Whether port accesses of the block need the check, by the flags with which it was translated. */
static bool asks_for_ports(const TranslationBlock *tb)
{
    uint32_t flags = tb->flags;

    return flags & HF_PE_MASK && (flags & VM_MASK || (flags & HF_CPL_MASK) > (flags & IOPL_MASK) >> IOPL_SHIFT);
}

/* The port access of the next instruction; 0 if it has none. */
static uint32_t port_access(DisasContextBase *db, CPUState *cpu)
{
    struct prefixes found = read_prefixes(db, cpu);
    uint32_t bytes = found.opcode & 1 ? (found.is_wide ? 4 : 2) : 1;

    if (found.length >= LONGEST_INSTRUCTION) {
        return 0;
    }
    switch (found.opcode) {
    case 0xe4:
    case 0xe5:
    case 0xe6:
    case 0xe7:
        return bytes | ACCESS_NAMED | next_byte(db, cpu, found.length + 1) << ACCESS_PORT;
    case 0xec:
    case 0xed:
    case 0xee:
    case 0xef:
    case 0x6c:
    case 0x6d:
    case 0x6e:
    case 0x6f:
        return bytes;
    default:
        return 0;
    }
}

static void use_port(CPUX86State *env, uint64_t machine, uint64_t pc, uint64_t access)
{
    uint32_t port = access & ACCESS_NAMED ? access >> ACCESS_PORT : env->regs[R_EDX] & 0xffff;

    AS_BEFORE(env);
    switch (access & ACCESS_BYTES) {
    case 1:
        HELPER(check_iob)(env, port);
        break;
    case 2:
        HELPER(check_iow)(env, port);
        break;
    default:
        HELPER(check_iol)(env, port);
    }
    HERE;
}

static void ask_for_port(TCGContext *s, struct trapline_machine *machine, DisasContextBase *db, CPUState *cpu)
{
    uint32_t access = asks_for_ports(db->tb) ? port_access(db, cpu) : 0;

    if (access) {
        call_with_machine(s, (void *)(uintptr_t)use_port, "use_port", machine, db->pc_next, access);
    }
}
