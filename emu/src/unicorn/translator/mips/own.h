/*
 * Operations that Unicorn lacks or does wrongly on MIPS (docs/unicorn.md, "MIPS"), and the table of the CPU's fields for
 * snapshots. Part of loop.c, for the four kinds of core (32 and 64 bits, both byte orders).
 *
 * Unicorn reports an exception to the interrupt callback with a wrong pc, except for a system call. It calls
 * `stop_interrupt` first, while the pc is right, and later sets the pc from `next_pc`. So `keep_pc` stores the pc there.
 * Unicorn itself never enters the guest's exception handler; `deliver` makes it do so.
 */

static bool keep_pc(struct uc_struct *uc, int exception)
{
    if (exception >= 0 && exception < EXCP_INTERRUPT) {
        uc->next_pc = ((CPUMIPSState *)uc->cpu->env_ptr)->active_tc.PC;
        /* An access that the guest's own tables refuse is an exception of the guest, and does not end the run. */
        uc->invalid_error = UC_ERR_OK;
    }
    return false;
}

/* Returns a random TLB index for TLBWR, not below Wired. The state of the generator is the guest's own Random register:
   Unicorn has one state for all engines of a process. */
static uint32_t draw(CPUMIPSState *env)
{
    uint32_t count = env->tlb->nb_tlb, wired = (uint32_t)env->CP0_Wired, first = wired < count ? wired : count - 1;

    env->CP0_Random = (int32_t)((uint32_t)env->CP0_Random * 1103515245u + 12345u);
    return first + ((uint32_t)env->CP0_Random >> 16) % (count - first);
}

/* TLBWR. Unicorn's function would also keep the replaced entry, so this uses the one for TLBWI. */
static void write_random_entry(CPUMIPSState *env)
{
    int32_t index = env->CP0_Index;

    env->CP0_Index = (int32_t)draw(env);
    env->tlb->helper_tlbwi(env);
    env->CP0_Index = index;
}

/* Removes MIPS16, which is not supported here. Without it, a jump to an odd address is an address error everywhere. */
static void leave_mips16(CPUMIPSState *env)
{
    env->insn_flags &= ~ASE_MIPS16;
    env->CP0_Config1 &= ~(1 << CP0C1_CA);
}

/*
 * The maximum number of TLB entries of such a CPU. A miss costs an exception, and on a replacement Unicorn flushes its
 * own TLB entries for the old page.
 */
enum { MOST_ENTRIES = 64 };

/* Gives the CPU that many TLB entries, and says so in Config1. */
static void widen(CPUMIPSState *env)
{
    env->tlb->nb_tlb = env->tlb->tlb_in_use = MOST_ENTRIES;
    env->CP0_Config1 = (env->CP0_Config1 & ~(63 << CP0C1_MMU)) | (MOST_ENTRIES - 1) << CP0C1_MMU;
}

/*
 * RDPGPR and WRPGPR use the registers of the shadow set SRSCtl.PSS: Unicorn adds the size of that many sets to the
 * address of the first one. But it has only one set, with other parts of the state behind it. So every field that
 * selects a set, and the field with the highest set, is kept at 0.
 */
static uint32_t held_to_one_set(uint32_t control)
{
    return control & ~(0xfu << CP0SRSCtl_HSS | 0xfu << CP0SRSCtl_EICSS | 0xfu << CP0SRSCtl_ESS | 0xfu << CP0SRSCtl_PSS |
                       0xfu << CP0SRSCtl_CSS);
}

/* Replaces `helper_mtc0_srsctl` of Unicorn's cp0_helper.c, 2.1.5. */
static void write_shadow_sets(CPUMIPSState *env, target_ulong value)
{
    HELPER(mtc0_srsctl)(env, value);
    env->CP0_SRSCtl = (int32_t)held_to_one_set((uint32_t)env->CP0_SRSCtl);
}

/* Initializes a new core. */
static void prepare(CPUState *cpu, uint32_t number)
{
    CPUMIPSState *env = cpu->env_ptr;

    cpu->uc->stop_interrupt = keep_pc;
    env->tlb->helper_tlbwr = write_random_entry;
    env->CP0_Random = 1;
    /* Unicorn derives the CPU's number from an index that is never set. */
    env->CP0_EBase = (env->CP0_EBase & ~(target_ulong)0x3ff) | (number & 0x3ff);
    /* The register for the running thread exists, but Config3 does not say so. */
    env->CP0_Config3 |= 1 << CP0C3_ULRI;
    leave_mips16(env);
    widen(env);
}

/* Enters the guest's handler of an exception. `pc` is the address of the instruction, or of the branch if the instruction is
   in its delay slot (`delayed`). */
static void deliver(CPUState *cpu, uint32_t exception, uint64_t pc, bool delayed)
{
    CPUMIPSState *env = cpu->env_ptr;

    env->hflags &= ~MIPS_HFLAG_BMASK;
    env->active_tc.PC = (target_ulong)pc + (delayed ? 4 : 0);
    if (delayed) {
        env->hflags |= MIPS_HFLAG_B;
    }
    cpu->exception_index = (int32_t)exception;
    CPU_GET_CLASS(cpu)->do_interrupt(cpu);
}

/* Translates an address with the TLB. */
static bool find_page(CPUState *cpu, uint64_t address, bool write, uint64_t *physical)
{
    CPUMIPSState *env = cpu->env_ptr;
    hwaddr found;
    int rights;

    if (env->tlb->map_address(env, &found, &rights, (target_ulong)address, write, ACCESS_INT) != 0) {
        return false;
    }
    *physical = found;
    return true;
}

/* Sets Status and the translator's flags that depend on it. */
static void set_status(CPUState *cpu, uint32_t value)
{
    CPUMIPSState *env = cpu->env_ptr;

    env->CP0_Status = (int32_t)value;
    compute_hflags(env);
}

/* The guest's TLB entries lie outside the state. Space for the largest TLB is returned, because this is called before
   `prepare`, too. */
static size_t target_beside_bytes(CPUState *cpu)
{
    return MOST_ENTRIES * sizeof(r4k_tlb_t);
}

static void target_save_beside(CPUState *cpu, void *to)
{
    memcpy(to, ((CPUMIPSState *)cpu->env_ptr)->tlb->mmu.r4k.tlb, target_beside_bytes(cpu));
}

static void target_load_beside(CPUState *cpu, const void *from)
{
    CPUMIPSTLBContext *tlb = ((CPUMIPSState *)cpu->env_ptr)->tlb;

    memcpy(tlb->mmu.r4k.tlb, from, target_beside_bytes(cpu));
    tlb->tlb_in_use = tlb->nb_tlb;
}

/* The numbers by which snapshots store a TLB entry; the fifth combines its flags. */
enum { ENTRY_NUMBERS = 7 };

static uint32_t entries(CPUState *cpu)
{
    return MOST_ENTRIES;
}

static void read_entry(CPUState *cpu, uint32_t number, uint64_t *to)
{
    const r4k_tlb_t *entry = &((CPUMIPSState *)cpu->env_ptr)->tlb->mmu.r4k.tlb[number];

    to[0] = entry->VPN;
    to[1] = entry->PageMask;
    to[2] = entry->ASID;
    to[3] = entry->MMID;
    to[4] = entry->G | entry->C0 << 1 | entry->C1 << 4 | entry->V0 << 7 | entry->V1 << 8 | entry->D0 << 9 | entry->D1 << 10 |
            entry->XI0 << 11 | entry->XI1 << 12 | entry->RI0 << 13 | entry->RI1 << 14 | entry->EHINV << 15;
    to[5] = entry->PFN[0];
    to[6] = entry->PFN[1];
}

static void write_entry(CPUState *cpu, uint32_t number, const uint64_t *from)
{
    r4k_tlb_t *entry = &((CPUMIPSState *)cpu->env_ptr)->tlb->mmu.r4k.tlb[number];
    uint64_t bits = from[4];

    memset(entry, 0, sizeof(*entry));
    entry->VPN = (target_ulong)from[0];
    entry->PageMask = (uint32_t)from[1];
    entry->ASID = (uint16_t)from[2];
    entry->MMID = (uint32_t)from[3];
    entry->G = bits & 1;
    entry->C0 = bits >> 1 & 7;
    entry->C1 = bits >> 4 & 7;
    entry->V0 = bits >> 7 & 1;
    entry->V1 = bits >> 8 & 1;
    entry->D0 = bits >> 9 & 1;
    entry->D1 = bits >> 10 & 1;
    entry->XI0 = bits >> 11 & 1;
    entry->XI1 = bits >> 12 & 1;
    entry->RI0 = bits >> 13 & 1;
    entry->RI1 = bits >> 14 & 1;
    entry->EHINV = bits >> 15 & 1;
    entry->PFN[0] = from[5];
    entry->PFN[1] = from[6];
}

/* Updates the state that depends on registers, after registers were written to the state. */
static void settle(CPUState *cpu)
{
    CPUMIPSState *env = cpu->env_ptr;

    env->hflags = env->CP0_HWREna & 1u << 29 ? MIPS_HFLAG_HWRENA_ULR : 0;
    env->CP0_SRSCtl = (int32_t)held_to_one_set((uint32_t)env->CP0_SRSCtl);
    leave_mips16(env);
    widen(env);
    compute_hflags(env);
    restore_fp_status(env);
}

/* A part of the state that a CPU may change after its reset: `count` consecutive numbers of `bytes` bytes each. */
struct field {
    const char *name;
    size_t at, bytes, count;
    /* Whether it is internal to the core: scratch, or derived from other fields. */
    bool is_own;
};
#define ONE(name, member) {name, offsetof(CPUMIPSState, member), sizeof(((CPUMIPSState *)0)->member), 1, false}
#define MANY(name, member)                                                                                             \
    {name, offsetof(CPUMIPSState, member), sizeof(((CPUMIPSState *)0)->member[0]),                                     \
     sizeof(((CPUMIPSState *)0)->member) / sizeof(((CPUMIPSState *)0)->member[0]), false}
#define OWN(member) {"", offsetof(CPUMIPSState, member), sizeof(((CPUMIPSState *)0)->member), 1, true}

static const struct field fields[] = {
    MANY("r", active_tc.gpr),
    ONE("pc", active_tc.PC),
    MANY("hi", active_tc.HI),
    MANY("lo", active_tc.LO),
    MANY("acx", active_tc.ACX),
    ONE("dspcontrol", active_tc.DSPControl),
    ONE("userlocal", active_tc.CP0_UserLocal),
    MANY("f", active_fpu.fpr),
    ONE("fcsr", active_fpu.fcr31),
    ONE("index", CP0_Index),
    ONE("random", CP0_Random),
    ONE("entrylo0.", CP0_EntryLo0),
    ONE("entrylo1.", CP0_EntryLo1),
    ONE("context", CP0_Context),
    ONE("pagemask", CP0_PageMask),
    ONE("pagegrain", CP0_PageGrain),
    ONE("wired", CP0_Wired),
    ONE("srsconf0.", CP0_SRSConf0),
    ONE("srsconf1.", CP0_SRSConf1),
    ONE("srsconf2.", CP0_SRSConf2),
    ONE("srsconf3.", CP0_SRSConf3),
    ONE("srsconf4.", CP0_SRSConf4),
    ONE("hwrena", CP0_HWREna),
    ONE("badvaddr", CP0_BadVAddr),
    ONE("badinstr", CP0_BadInstr),
    ONE("badinstrp", CP0_BadInstrP),
    ONE("count", CP0_Count),
    ONE("entryhi", CP0_EntryHi),
    ONE("compare", CP0_Compare),
    ONE("status", CP0_Status),
    ONE("intctl", CP0_IntCtl),
    ONE("srsctl", CP0_SRSCtl),
    ONE("srsmap", CP0_SRSMap),
    ONE("cause", CP0_Cause),
    ONE("epc", CP0_EPC),
    ONE("ebase", CP0_EBase),
    ONE("config0.", CP0_Config0),
    ONE("config2.", CP0_Config2),
    ONE("config3.", CP0_Config3),
    ONE("lladdr", CP0_LLAddr),
    ONE("linked.address", lladdr),
    ONE("linked.value", llval),
    MANY("watchlo", CP0_WatchLo),
    MANY("watchhi", CP0_WatchHi),
    ONE("xcontext", CP0_XContext),
    ONE("framemask", CP0_Framemask),
    ONE("debug", CP0_Debug),
    ONE("depc", CP0_DEPC),
    ONE("performance", CP0_Performance0),
    ONE("errctl", CP0_ErrCtl),
    ONE("taglo", CP0_TagLo),
    ONE("datalo", CP0_DataLo),
    ONE("taghi", CP0_TagHi),
    ONE("datahi", CP0_DataHi),
    ONE("errorepc", CP0_ErrorEPC),
    ONE("desave", CP0_DESAVE),
    MANY("kscratch", CP0_KScratch),
    OWN(active_fpu.fp_status),
    OWN(error_code),
    OWN(btarget),
    OWN(bcond),
};

/*
 * Unicorn's functions for reading Count and writing Count and Compare are empty; here the board answers, by a number
 * made of the register's number and its select field.
 */
enum { SYSTEM_COPROCESSOR = 1 << 16, COUNT_REGISTER = SYSTEM_COPROCESSOR | 9 << 3, COMPARE_REGISTER = SYSTEM_COPROCESSOR | 11 << 3 };

/* Sets the pc of the state to the instruction whose translated code has this host address. */
static void sync_pc(CPUMIPSState *env, uintptr_t host)
{
    uint64_t pc;

    if (pc_of_host(env_cpu(env), host, &pc)) {
        env->active_tc.PC = (target_ulong)pc;
    }
}

static target_ulong read_register(CPUMIPSState *env, uint32_t number, uintptr_t host)
{
    struct trapline_machine *machine = machine_of(env->uc);
    uint64_t value;

    sync_pc(env, host);
    return machine && machine->register_in(machine, number, &value) ? (target_long)(int32_t)value : 0;
}

static void write_register(CPUMIPSState *env, uint32_t number, target_ulong value, uintptr_t host)
{
    struct trapline_machine *machine = machine_of(env->uc);

    sync_pc(env, host);
    if (machine) {
        machine->register_out(machine, number, (uint32_t)value);
    }
}

static target_ulong read_count(CPUMIPSState *env)
{
    return read_register(env, COUNT_REGISTER, GETPC());
}

static target_ulong read_user_count(CPUMIPSState *env)
{
    if (!(env->hflags & MIPS_HFLAG_CP0) && !(env->CP0_HWREna & (1 << 2))) {
        do_raise_exception(env, EXCP_RI, GETPC());
    }
    return read_register(env, COUNT_REGISTER, GETPC());
}

static target_ulong read_random(CPUMIPSState *env)
{
    return draw(env);
}

static void write_count(CPUMIPSState *env, target_ulong value)
{
    write_register(env, COUNT_REGISTER, value, GETPC());
}

static void write_compare(CPUMIPSState *env, target_ulong value)
{
    env->CP0_Compare = (int32_t)value;
    write_register(env, COMPARE_REGISTER, value, GETPC());
}

/* For unicorn/cpus/mips.rs: functions, and offsets of registers in the state. */
const struct {
    void (*prepare)(CPUState *cpu, uint32_t number);
    void (*deliver)(CPUState *cpu, uint32_t exception, uint64_t pc, bool delayed);
    bool (*look_up)(CPUState *cpu, uint64_t address, bool write, uint64_t *physical);
    void (*set_status)(CPUState *cpu, uint32_t value);
    void (*settle)(CPUState *cpu);
    uint32_t (*entries)(CPUState *cpu);
    void (*read_entry)(CPUState *cpu, uint32_t number, uint64_t *to);
    void (*write_entry)(CPUState *cpu, uint32_t number, const uint64_t *from);
    const struct field *fields;
    size_t field_count;
    size_t places[12];
} TRAPLINE_OWN = {
    prepare,
    deliver,
    find_page,
    set_status,
    settle,
    entries,
    read_entry,
    write_entry,
    fields,
    sizeof(fields) / sizeof(fields[0]),
    {
        offsetof(CPUMIPSState, active_tc.HI[0]),
        offsetof(CPUMIPSState, active_tc.LO[0]),
        offsetof(CPUMIPSState, CP0_Status),
        offsetof(CPUMIPSState, CP0_Cause),
        offsetof(CPUMIPSState, CP0_EPC),
        offsetof(CPUMIPSState, CP0_BadVAddr),
        offsetof(CPUMIPSState, CP0_EntryHi),
        offsetof(CPUMIPSState, CP0_EBase),
        offsetof(CPUMIPSState, hflags),
        offsetof(CPUMIPSState, CP0_Context),
        offsetof(CPUMIPSState, CP0_XContext),
        offsetof(CPUMIPSState, CP0_PageMask),
    },
};

/*
 * Stands in for `helper_pmon` of op_helper.c, 2.1.5, which prints a character to the host's standard output. The opcode is a
 * reserved instruction.
 */
static void call_monitor(CPUMIPSState *env, int function)
{
    do_raise_exception(env, EXCP_RI, GETPC());
}

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(pmon), call_monitor, false },
    { HELPER(mfc0_count), read_count, false },
    { HELPER(rdhwr_cc), read_user_count, false },
    { HELPER(mfc0_random), read_random, false },
    { HELPER(mtc0_count), write_count, false },
    { HELPER(mtc0_compare), write_compare, false },
    { HELPER(mtc0_srsctl), write_shadow_sets, false },
    { NULL, NULL, false },
};
#define target_instead target_instead
#define target_beside_bytes target_beside_bytes
