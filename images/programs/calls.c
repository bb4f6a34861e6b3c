/*
 * A program whose calls end in every way: recursion, tail calls, jumps out of functions, signal handlers, threads and forks. It also has
 * marks of sys/sdt.h (USDT) with arguments in registers, constants and memory. Probes must see each entry and each return, and read the
 * arguments that it prints (tests/tests/user_probes).
 *
 * Freestanding, without a C library. The word that it is started with is how often it does all that.
 */

#include "system.h"
#include <sys/sdt.h>

#define FUNCTION __attribute__((noipa)) /* a function of its own, called as such */
#define KEEP(value) __asm__ volatile("" : "+r"(value))

enum { VM = 0x100, FS = 0x200, FILES = 0x400, HANDLERS = 0x800, THREAD = 0x10000, STACK = 8192, COPIED = 256, THREADS = 3 };

static volatile word handled, finished[THREADS];
static char stacks[THREADS][STACK] __attribute__((aligned(16)));
static void *place[5];
static volatile int numbers[8];
volatile int counter;

FUNCTION word recursive(word depth)
{
    if (depth == 0) {
        system_call(YIELD, 0, 0, 0, 0);
        return 1;
    }
    word below = recursive(depth - 1);
    KEEP(below);
    return below + 1;
}

FUNCTION word tail_last(word value)
{
    KEEP(value);
    return value + 1;
}

FUNCTION word tail_middle(word value)
{
    return tail_last(value + 1);
}

FUNCTION word tail_first(word value)
{
    return tail_middle(value + 1);
}

FUNCTION void leaves(word depth)
{
    if (depth == 0)
        __builtin_longjmp(place, 1);
    leaves(depth - 1);
    __asm__ volatile("" ::: "memory");
}

FUNCTION word catches(void)
{
    if (__builtin_setjmp(place))
        return 1;
    leaves(3);
    return 0;
}

FUNCTION void handler(int number, void *info, void *context)
{
    (void)number, (void)info, (void)context;
    handled += recursive(2);
}

FUNCTION word interrupted(void)
{
    system_call(KILL, system_call(GETPID, 0, 0, 0, 0), ALARM, 0, 0);
    return handled;
}

FUNCTION word forks(void)
{
    return child();
}

FUNCTION void works(word number)
{
    for (int times = 0; times < 4; times++)
        recursive(3 + number);
}

static inline char *stack_pointer(void)
{
    char *pointer;
#if defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %0" : "=r"(pointer));
#elif defined(__i386__)
    __asm__ volatile("mov %%esp, %0" : "=r"(pointer));
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("mov %0, sp" : "=r"(pointer));
#elif defined(__riscv)
    __asm__ volatile("mv %0, sp" : "=r"(pointer));
#elif defined(__s390__)
    __asm__ volatile("la %0, 0(15)" : "=r"(pointer));
#elif defined(__powerpc64__)
    __asm__ volatile("mr %0, 1" : "=r"(pointer));
#elif defined(__mips__)
    __asm__ volatile("move %0, $29" : "=r"(pointer));
#endif
    return pointer;
}

/* Starts a thread on a stack of its own, with a copy of this function's frame. */
FUNCTION void starts(word number)
{
    char *from = stack_pointer(), *to = stacks[number] + STACK - 2 * COPIED;
    to += (word)from & 15;
    for (int at = 0; at < COPIED; at++)
        to[at] = from[at];
    word flags = VM | FS | FILES | HANDLERS | THREAD;
#if defined(__s390__)
    word found = system_call(CLONE, (word)to, flags, 0, 0);
#else
    word found = system_call(CLONE, flags, (word)to, 0, 0);
#endif
    if (found == 0) {
        works(number);
        finished[number] = 1;
        system_call(EXIT, 0, 0, 0, 0);
    }
}

FUNCTION void marks(int number, long large)
{
    volatile short local[4] = { -1, -2, -3, (short)(number - 100) };
    counter = 3 * number;
    numbers[number & 7] = 7 - number;
    STAP_PROBE1(trapline, first, number);
    STAP_PROBE5(trapline, marked, number, large, -7, numbers[number & 7], local[3]);
}

static void put(const char *name, word value)
{
    print(name);
    print_number((unsigned int)value);
}

#if defined(__x86_64__) || defined(__i386__)
__attribute__((force_align_arg_pointer))
#endif
void _start(void)
{
    struct action action = { .handler = handler, .flags = SIGINFO };
#if defined(__x86_64__)
    action.flags |= RESTORER;
    action.restorer = restorer;
#endif
    system_call(SIGACTION, ALARM, (word)&action, 0, sizeof action.mask);
    put("calls: recursive ", recursive(20));
    put(" tail ", tail_first(1));
    word caught = 0;
    for (int times = 0; times < 6; times++)
        caught += catches();
    put(" caught ", caught);
    word seen = 0;
    for (int times = 0; times < 5; times++)
        seen = interrupted();
    put(" handled ", seen);
    int status = 0;
    word pid = forks();
    if (pid == 0)
        system_call(EXIT, 0, 0, 0, 0);
    system_call(WAIT4, pid, (word)&status, 0, 0);
    put(" status ", (word)status);
    for (word number = 0; number < THREADS; number++)
        starts(number);
    while (!finished[0] || !finished[1] || !finished[2])
        system_call(YIELD, 0, 0, 0, 0);
    put(" threads ", THREADS);
    print("\n");
    for (int number = 0; number < 5; number++)
        marks(number, 1000000l + number);
    system_call(EXIT, 0, 0, 0, 0);
}
