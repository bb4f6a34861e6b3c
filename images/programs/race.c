/*
 * A program with a race: two processes add to a counter in shared memory, each reading it, working for a moment, and writing it
 * back. If one writes between the other's read and write, an addition is lost. The processes meet before each round, and then
 * work for unequal times, so that only turns of unequal lengths bring them into that moment together. The exit status is 1 if an
 * addition was lost.
 *
 * Freestanding, without a C library.
 */

typedef unsigned long word;

#if defined(__x86_64__)
enum { EXIT = 60, FORK = 57, WAIT4 = 61, MMAP = 9, YIELD = 24 };
#elif defined(__aarch64__)
enum { EXIT = 93, CLONE = 220, WAIT4 = 260, MMAP = 222, YIELD = 124, ON_CHILD_DEATH = 17 };
#endif

static word system_call(word number, word first, word second, word third, word fourth, word fifth, word sixth)
{
#if defined(__x86_64__)
    register word r10 __asm__("r10") = fourth, r8 __asm__("r8") = fifth, r9 __asm__("r9") = sixth;
    word result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register word x8 __asm__("x8") = number, x0 __asm__("x0") = first, x1 __asm__("x1") = second, x2 __asm__("x2") = third,
                  x3 __asm__("x3") = fourth, x4 __asm__("x4") = fifth, x5 __asm__("x5") = sixth;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

enum { READ_WRITE = 3, SHARED_ANONYMOUS = 0x21, PAGE = 4096, ROUNDS = 6 };
/* Rounds of an empty loop: in the racing moment, and in front of it for the two processes. */
enum { MOMENT = 800, EARLY = 100, LATE = 2000 };

struct shared {
    volatile word counter;
    volatile word arrived[2];
};

static void work(word rounds)
{
    for (volatile word i = 0; i < rounds; i++)
        ;
}

static void add(struct shared *shared, int self)
{
    for (word round = 1; round <= ROUNDS; round++) {
        shared->arrived[self] = round;
        while (shared->arrived[!self] < round)
            system_call(YIELD, 0, 0, 0, 0, 0, 0);
        work(self == 0 ? EARLY : LATE);
        word value = shared->counter;
        work(MOMENT);
        shared->counter = value + 1;
    }
}

#if defined(__x86_64__)
__attribute__((force_align_arg_pointer))
#endif
void _start(void)
{
    struct shared *shared = (struct shared *)system_call(MMAP, 0, PAGE, READ_WRITE, SHARED_ANONYMOUS, (word)-1, 0);
#if defined(__aarch64__)
    word child = system_call(CLONE, ON_CHILD_DEATH, 0, 0, 0, 0, 0);
#else
    word child = system_call(FORK, 0, 0, 0, 0, 0, 0);
#endif
    add(shared, child == 0);
    if (child == 0)
        system_call(EXIT, 0, 0, 0, 0, 0, 0);
    system_call(WAIT4, child, 0, 0, 0, 0, 0);
    system_call(EXIT, shared->counter != 2 * ROUNDS, 0, 0, 0, 0, 0);
    for (;;)
        ;
}
