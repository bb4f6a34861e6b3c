/*
 * Instructions that the machine executes instead of Unicorn (docs/unicorn.md, "z/Architecture"). Part of hooks.h.
 *
 * Unicorn has no clocks, service processor, channels or other CPUs: it decodes their instructions and does nothing. It
 * also does nothing when a PSW with the wait bit is loaded. Here such an instruction raises an exception with a number that
 * no CPU has (unicorn/cpus/s390.rs), with all state written back, and the machine executes the instruction.
 */
#define LEFT_TO_US 0x100

/*
 * The target of an EXECUTE instruction, 0 if the block is none. Unicorn makes a block of it, at the address of EXECUTE.
 * The word holds the target's bytes and, in its last four bits, the length of EXECUTE. The block is a part of EXECUTE: it
 * counts no time, and nothing interrupts or stops in front of it.
 */
static uint64_t executed(const TranslationBlock *tb)
{
    return tb->cs_base;
}

/* The first two bytes of the instruction at this address in the block. */
static unsigned code_at(DisasContextBase *db, CPUState *cpu, uint64_t pc)
{
    uint64_t instead = executed(db->tb);
    return instead ? instead >> 48 : cpu_lduw_code(cpu->env_ptr, pc);
}

/* The first two bytes of the next instruction. */
static unsigned next_code(DisasContextBase *db, CPUState *cpu)
{
    return code_at(db, cpu, db->pc_next);
}

/* The length in bytes of the next instruction if the machine executes it. 0: Unicorn executes it, or refuses it because
   it is privileged and a program is running. */
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

/* Ends the block with the exception. */
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
