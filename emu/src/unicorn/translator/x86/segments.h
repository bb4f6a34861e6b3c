/*
 * Fast loads of segment registers of x86, for the common case (docs/unicorn.md, "Fast segment loads"). A part of loop.c.
 *
 * Unicorn reads a descriptor like device memory, with a search for each half, and reads the frame of an interrupt in
 * the same way, word by word; a system call of a 32-bit kernel loads eight descriptors and returns by such a frame.
 * Here they are read from host memory, if the TLB has their page. Everything that would be refused, would write to the
 * table or crosses a page is left to Unicorn; until that is decided, nothing is changed.
 */
struct descriptor {
    uint32_t low, high;
};

/* The host address of these bytes, if the TLB has their page for a load by the kernel; else NULL. */
static const uint8_t *at_hand(CPUX86State *env, target_ulong address, size_t bytes)
{
    const CPUTLBEntry *entry = tlb_entry(env, cpu_mmu_index_kernel(env), address);
    bool is_one_page = (address & ~TARGET_PAGE_MASK) + bytes <= TARGET_PAGE_SIZE;

    return is_one_page && entry->addr_read == (address & TARGET_PAGE_MASK) ? (const uint8_t *)((uintptr_t)address + entry->addend) : NULL;
}

/* Reads the descriptor of a selector, if it is a present code or data segment. */
static bool find_descriptor(CPUX86State *env, unsigned selector, struct descriptor *descriptor)
{
    const uint32_t wanted = DESC_S_MASK | DESC_P_MASK;
    const SegmentCache *table = selector & 4 ? &env->ldt : &env->gdt;
    const uint8_t *at = NULL;

    if ((selector & 0xfffc) != 0 && (selector | 7) <= table->limit) {
        at = at_hand(env, table->base + (selector & ~7), sizeof(*descriptor));
    }
    if (at == NULL) {
        return false;
    }
    *descriptor = (struct descriptor){ldl_le_p(at), ldl_le_p(at + 4)};
    return (descriptor->high & wanted) == wanted;
}

static unsigned level_of(uint32_t high)
{
    return high >> DESC_DPL_SHIFT & 3;
}

static void put_segment(CPUX86State *env, int number, unsigned selector, struct descriptor row)
{
    uint32_t base = row.low >> 16 | (row.high & 0xff) << 16 | (row.high & 0xff000000);
    uint32_t limit = (row.low & 0xffff) | (row.high & 0xf0000);

    cpu_x86_load_seg_cache(env, number, selector, base, row.high & DESC_G_MASK ? limit << 12 | 0xfff : limit, row.high);
}

/* Restores the state of the instruction before calling Unicorn's helper, in case that raises an exception. */
#define AS_BEFORE(env) cpu_restore_state(env_cpu(env), GETPC(), false)

/* Replaces Unicorn's helper for loads of segment registers. */
static void load_segment(CPUX86State *env, int number, int value)
{
    unsigned selector = value & 0xffff, current = env->hflags & HF_CPL_MASK, asked = selector & 3;
    struct descriptor row;
    bool is_data, fits;

    if ((selector & 0xfffc) == 0 && number != R_SS) {
        cpu_x86_load_seg_cache(env, number, selector, 0, 0, 0);
        return;
    }
    if (!find_descriptor(env, selector, &row) || !(row.high & DESC_A_MASK)) {
        row.high = 0;
    }
    is_data = !(row.high & DESC_CS_MASK);
    if (row.high == 0) {
        fits = false;
    } else if (number == R_SS) {
        fits = is_data && row.high & DESC_W_MASK && asked == current && level_of(row.high) == current;
    } else {
        fits = (is_data || row.high & DESC_R_MASK) && level_of(row.high) >= MAX(current, asked);
    }
    if (fits) {
        put_segment(env, number, selector, row);
    } else {
        AS_BEFORE(env);
        HELPER(load_seg)(env, number, value);
        HERE;
    }
}

/* Whether IRET to a program leaves this segment register as it is. It clears one that only the kernel may use. */
static bool may_stay(const CPUX86State *env, int number)
{
    const SegmentCache *segment = &env->segs[number];
    bool is_none = (number == R_FS || number == R_GS) && (segment->selector & 0xfffc) == 0;
    bool is_everybodys = segment->flags & DESC_CS_MASK && segment->flags & DESC_C_MASK;

    return is_none || is_everybodys || level_of(segment->flags) == 3;
}

/* Performs an IRET from a 32-bit kernel to a 32-bit program. False: it is another return, or something would be refused; Unicorn
   must do it. */
static bool return_to_program(CPUX86State *env)
{
    enum { PC, CODE, FLAGS, POINTER, STACK, WORDS };
    const int changed = TF_MASK | AC_MASK | ID_MASK | RF_MASK | NT_MASK | IOPL_MASK | IF_MASK;
    const uint32_t code_bits = DESC_CS_MASK | DESC_C_MASK, stack_bits = DESC_CS_MASK | DESC_W_MASK | DESC_B_MASK;
    const SegmentCache *stack = &env->segs[R_SS];
    const uint8_t *at = NULL;
    uint32_t frame[WORDS];
    struct descriptor code, data;

    if (!(env->eflags & NT_MASK) && (env->hflags & (HF_LMA_MASK | HF_GUEST_MASK | HF_CPL_MASK)) == 0 && stack->flags & DESC_B_MASK) {
        at = at_hand(env, (uint32_t)(stack->base + env->regs[R_ESP]), sizeof(frame));
    }
    if (at == NULL) {
        return false;
    }
    for (int word = 0; word < WORDS; word++) {
        frame[word] = ldl_le_p(at + 4 * word);
    }
    frame[CODE] &= 0xffff;
    frame[STACK] &= 0xffff;
    if (frame[FLAGS] & VM_MASK || (frame[CODE] & frame[STACK] & 3) != 3
        || !find_descriptor(env, frame[CODE], &code) || (code.high & code_bits) != DESC_CS_MASK || level_of(code.high) != 3
        || !find_descriptor(env, frame[STACK], &data) || (data.high & stack_bits) != (DESC_W_MASK | DESC_B_MASK) || level_of(data.high) != 3
        || !may_stay(env, R_ES) || !may_stay(env, R_DS) || !may_stay(env, R_FS) || !may_stay(env, R_GS)) {
        return false;
    }
    put_segment(env, R_SS, frame[STACK], data);
    put_segment(env, R_CS, frame[CODE], code);
    env->regs[R_ESP] = frame[POINTER];
    env->eip = frame[PC];
    cpu_load_eflags(env, frame[FLAGS], changed);
    env->hflags2 &= ~HF2_NMI_MASK;
    return true;
}

/* Replaces Unicorn's helper for IRET. */
static void return_from_interrupt(CPUX86State *env, int size, int next_pc)
{
    if (size != 1 || !return_to_program(env)) {
        AS_BEFORE(env);
        HELPER(iret_protected)(env, size, next_pc);
        HERE;
    }
}
