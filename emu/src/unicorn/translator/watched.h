/*
 * The table of watched pages. access.c, the slow path of loads and stores, reads it, and so does the code that fills TLB
 * entries. unicorn/watched.rs builds the table and has the same structures in Rust.
 */

/* A watched page of 4,096 bytes. */
struct trapline_row {
    /* The page's number: of its guest address, or of its physical address with the highest bit set. */
    uint64_t page;
    /* Bitmaps of the page's pieces of 64 bytes: those with bytes whose loads are watched, then those for stores. */
    uint64_t pieces[2];
    /* The ranges in the page: a part of the list in unicorn/watched.rs, by its first index and its length. */
    uint32_t first;
    uint32_t count;
};

/* The relation of an access to its operand: WHOLE is the whole operand. PART is a part of a block operand, which is
   reported too. BLOCK is that operand, reported as one access. */
enum { WHOLE, PART, BLOCK };

/*
 * A block operand (not a translation block): an operand of an instruction such as MVC or dcbz, whose helper accesses it in
 * parts because probe_access gave it no host address. It is reported as one access.
 */
struct trapline_block {
    /* The whole operand: its guest address and its bytes. A size of 0 marks an unused entry. */
    uint64_t start;
    uint64_t size;
    /* The range of guest addresses that is accessed in parts, and the address of the next expected part. */
    uint64_t from;
    uint64_t to;
    uint64_t next;
    /* The first bytes of the operand before the access, at most eight, as a number. */
    uint64_t before;
    /* The return address in translated code. 0 until the first part sets it. */
    uint64_t host_pc;
    uint64_t is_store;
};

/* One more than the largest number of block operands of an instruction. */
#define BLOCKS 4

struct trapline_blocks {
    /* A ring buffer. `newest` counts the operands; modulo BLOCKS it is the index of the newest one. */
    struct trapline_block all[BLOCKS];
    uint32_t newest;
    /* Whether one of them is being accessed in parts. */
    uint32_t in_parts;
};

/* The size in words of 8 bytes. unicorn/watched.rs allocates the structure. */
#define BLOCKS_WORDS 33
QEMU_BUILD_BUG_ON(sizeof(struct trapline_blocks) != BLOCKS_WORDS * sizeof(uint64_t));

/* The page number of an unused row. */
#define NO_PAGE UINT64_MAX
/* The bit of a page number that marks a physical address. */
#define PHYSICAL (UINT64_C(1) << 63)

/* An access to a watched piece. */
struct trapline_access {
    uint64_t address;
    uint64_t physical;
    /* The physical address of the second page, if the access crosses into it. */
    uint64_t other_physical;
    /* The value in memory before a store. */
    uint64_t before;
    /* The value that was loaded or stored. */
    uint64_t value;
    /* The address in translated code of the access, or of the call of the helper that made it. */
    uint64_t host_pc;
    uint32_t size;
    uint32_t is_store;
    /* The byte order of the two values in memory. */
    uint32_t is_big;
    /* WHOLE, PART or BLOCK. */
    uint32_t kind;
    /* The rows of the accessed pages, NULL for a page in which the access touches no watched piece: the first page by guest
       address and by physical address, then the second page likewise. */
    const struct trapline_row *rows[4];
};

struct trapline_watched {
    /* A hash table of pages with linear probing, and its number of rows minus one. */
    const struct trapline_row *rows;
    uint64_t mask;
    /* Reports an access to a watched piece. */
    void (*accessed)(const struct trapline_watched *watched, const struct trapline_access *access);
    /* The block operands of the instruction that runs now. */
    struct trapline_blocks *blocks;
};

/*
 * The pointer to the table lies in `jmp_env` of the CPU, which Unicorn does not use, beside the three words of the clock
 * (loop.c). NULL: nothing is watched.
 */
#define WATCHED_PLACE 64
#define WATCHED(cpu) (*(const struct trapline_watched **)((char *)&(cpu)->jmp_env + WATCHED_PLACE))
QEMU_BUILD_BUG_ON(sizeof(((CPUState *)NULL)->jmp_env) < WATCHED_PLACE + sizeof(void *));

/*
 * Two words in front of it are for the watchpoints of the guest's own debug registers: the points that an instruction has
 * met, where the CPU traps behind the instruction, and whether any watchpoint is set (break_sets.h).
 */
#define DEBUG_PLACE 48
#define DEBUG_MET(cpu) ((uint64_t *)((char *)&(cpu)->jmp_env + DEBUG_PLACE))
#define DEBUG_WATCHES(cpu) (DEBUG_MET(cpu) + 1)
QEMU_BUILD_BUG_ON(DEBUG_PLACE + 2 * sizeof(uint64_t) > WATCHED_PLACE);

/* Sets the table, or NULL, and updates TLB_WATCHPOINT in every TLB entry. Flushes nothing. */
void TRAPLINE_WATCH(CPUState *cpu, const struct trapline_watched *watched);
/* Sets TLB_WATCHPOINT in the TLB entry of this address, if its page is watched. Called after the entry was filled. */
void TRAPLINE_FLAG(CPUState *cpu, vaddr address, int mode);
