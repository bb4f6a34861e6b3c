/*
 * An allocator with guard pages for the fuzz targets that run machines. scripts/fuzz.sh compiles and preloads it; it is no
 * part of trapline.
 *
 * Unicorn allocates a CPU's state, its TLB and its tables with malloc. Blocks of such a size end at an inaccessible page
 * here, have one before them, and become inaccessible when they are freed. So an index that leaves the state faults,
 * also in translated code, which sanitizers do not instrument.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

/* Blocks of FEWEST to MOST bytes are guarded. */
enum { PAGE = 4096, FEWEST = 4 << 10, MOST = 1 << 20, ALIGNMENT = 16 };
/* The size in bytes of the reserved address space. An address is never reused, so an access to a freed block always faults. */
#define PLACES (UINT64_C(1) << 38)

static char *region;
/* For each page, the size in bytes of the block that begins in it. */
static uint32_t *lengths;
/* The number of bytes of `region` that were handed out. */
static size_t given;

/* Reserves the region at the first call. False: the host has no address space left. */
static int begin(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    if (region == NULL) {
        void *places = mmap(NULL, PLACES, PROT_NONE, flags, -1, 0);
        void *table = mmap(NULL, PLACES / PAGE * sizeof(*lengths), PROT_READ | PROT_WRITE, flags, -1, 0);
        if (places == MAP_FAILED || table == MAP_FAILED) {
            return 0;
        }
        lengths = table;
        region = places;
    }
    return 1;
}

static int is_ours(const void *block)
{
    return region != NULL && (uintptr_t)block - (uintptr_t)region < PLACES;
}

/* Returns a zeroed block that ends at an inaccessible page. NULL: blocks of this size are not guarded, or the region is used
   up. */
static void *guarded(size_t bytes)
{
    size_t kept = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1), whole = (kept + PAGE - 1) & ~(size_t)(PAGE - 1), at;

    if (bytes < FEWEST || bytes > MOST || !begin()) {
        return NULL;
    }
    at = __atomic_fetch_add(&given, whole + PAGE, __ATOMIC_RELAXED) + PAGE;
    if (at + whole + PAGE > PLACES || mprotect(region + at, whole, PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    at += whole - kept;
    lengths[at / PAGE] = (uint32_t)bytes;
    return region + at;
}

/* Frees a guarded block: gives its memory back and makes its pages inaccessible. */
static void gone(void *block)
{
    size_t at = (size_t)((char *)block - region), start = at & ~(size_t)(PAGE - 1), bytes = lengths[at / PAGE];
    size_t end = (at + bytes + PAGE - 1) & ~(size_t)(PAGE - 1);

    madvise(region + start, end - start, MADV_DONTNEED);
    mprotect(region + start, end - start, PROT_NONE);
}

void *malloc(size_t bytes)
{
    void *block = guarded(bytes);
    return block ? block : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    size_t all;
    void *block = __builtin_mul_overflow(count, bytes, &all) ? NULL : guarded(all);
    return block ? block : __libc_calloc(count, bytes);
}

void free(void *block)
{
    if (is_ours(block)) {
        gone(block);
    } else {
        __libc_free(block);
    }
}

void *realloc(void *block, size_t bytes)
{
    void *other;
    size_t before;

    if (!is_ours(block)) {
        return __libc_realloc(block, bytes);
    }
    before = lengths[((char *)block - region) / PAGE];
    other = malloc(bytes);
    if (other != NULL) {
        memcpy(other, block, before < bytes ? before : bytes);
        gone(block);
    }
    return other;
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}
