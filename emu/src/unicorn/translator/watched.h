/*
 * Watched pages, as the slow path of loads and stores (access.c) and the code that fills TLB entries see them. The
 * machine makes the table (unicorn/watched.rs).
 */

/* A watched page of 4,096 bytes. */
struct trapline_row {
    /* The page's number: of its guest address, or of its physical address with the highest bit set. */
    uint64_t page;
    /* Which of its pieces of 64 bytes hold bytes whose loads or stores are watched. */
    uint64_t pieces[2];
    /* The machine's list of the page's ranges. */
    uint32_t first;
    uint32_t count;
};

/* An access of its own; a part of a block, which is noted only; a block that was noted by its parts. */
enum { WHOLE, PART, BLOCK };

/*
 * An operand of an instruction whose helper accesses it in parts, because it got no page of host memory: MVC, dcbz. It is
 * reported as one access.
 */
struct trapline_block {
    /* The whole operand. A size of 0 is an unused block. */
    uint64_t start;
    uint64_t size;
    /* The bytes that are accessed in parts, one after the other, and the next of them. */
    uint64_t from;
    uint64_t to;
    uint64_t next;
    /* The number in memory before. */
    uint64_t before;
    /* The place in translated code. 0: that of the first part. */
    uint64_t host_pc;
    uint64_t is_store;
};

/* Most operands of an instruction, and one more. */
#define BLOCKS 4

struct trapline_blocks {
    /* A ring; `newest` is the number of the block that was begun last. */
    struct trapline_block all[BLOCKS];
    uint32_t newest;
    /* Whether one of them is accessed in parts. */
    uint32_t in_parts;
};

/* unicorn/watched.rs makes room for so many words. */
#define BLOCKS_WORDS 33
QEMU_BUILD_BUG_ON(sizeof(struct trapline_blocks) != BLOCKS_WORDS * sizeof(uint64_t));

/* The page number of an unused row. */
#define NO_PAGE UINT64_MAX
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
    /* The place in translated code that made the access, or that called the helper that did. */
    uint64_t host_pc;
    uint32_t size;
    uint32_t is_store;
    /* The byte order of the two values in memory. */
    uint32_t is_big;
    /* WHOLE, PART or BLOCK. */
    uint32_t kind;
    /* The rows of its pages that have a watched piece in the access: by guest address and by physical address, of the
       first page and of the second. */
    const struct trapline_row *rows[4];
};

struct trapline_watched {
    /* A hash table with linear probing. */
    const struct trapline_row *rows;
    uint64_t mask;
    void (*accessed)(const struct trapline_watched *watched, const struct trapline_access *access);
    /* The operands of the present instruction. */
    struct trapline_blocks *blocks;
};

/*
 * The pointer to the table lies in `jmp_env` of the CPU, which Unicorn does not use, beside the three words of the clock
 * (loop.c). NULL: nothing is watched.
 */
#define WATCHED_PLACE 64
#define WATCHED(cpu) (*(const struct trapline_watched **)((char *)&(cpu)->jmp_env + WATCHED_PLACE))
QEMU_BUILD_BUG_ON(sizeof(((CPUState *)NULL)->jmp_env) < WATCHED_PLACE + sizeof(void *));

/* Sets the table, and the flag of every TLB entry accordingly. */
void TRAPLINE_WATCH(CPUState *cpu, const struct trapline_watched *watched);
/* Sets the flag of the TLB entry of this address, which has just been filled. */
void TRAPLINE_FLAG(CPUState *cpu, vaddr address, int mode);
