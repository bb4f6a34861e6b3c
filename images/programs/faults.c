/*
 * Threads that touch pages of their own, one after the other, in one address space. On several CPUs the kernel counts the pages of the
 * address space on all of them at once.
 *
 * Freestanding, without a C library. For RISC-V.
 */

#include "system.h"

enum { VM = 0x100, FS = 0x200, FILES = 0x400, HANDLERS = 0x800, THREAD = 0x10000, STACK = 4096, PAGE = 4096, PAGES = 400, THREADS = 4 };

static char stacks[THREADS][STACK] __attribute__((aligned(16)));
static volatile char memory[THREADS][PAGES * PAGE] __attribute__((aligned(4096)));
static volatile word finished[THREADS];

__attribute__((noreturn, used)) static void touches(word number)
{
    for (word page = 0; page < PAGES; page++)
        memory[number][page * PAGE] = 1;
    finished[number] = 1;
    for (;;)
        system_call(EXIT, 0, 0, 0, 0);
}

static void starts(word number)
{
    register word a7 __asm__("a7") = CLONE, a0 __asm__("a0") = VM | FS | FILES | HANDLERS | THREAD,
                  a1 __asm__("a1") = (word)(stacks[number] + STACK), a2 __asm__("a2") = 0, a3 __asm__("a3") = 0;
    /* The thread begins on another stack, so it may not return into this function. */
    __asm__ volatile("ecall\n\tbnez a0, 1f\n\tmv a0, %5\n\tj touches\n1:"
                     : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(number) : "memory");
}

__attribute__((noreturn)) void _start(void)
{
    for (word number = 0; number < THREADS; number++)
        starts(number);
    word left;
    do {
        system_call(YIELD, 0, 0, 0, 0);
        left = THREADS;
        for (word number = 0; number < THREADS; number++)
            left -= finished[number];
    } while (left != 0);
    print("pages ");
    print_number(THREADS * PAGES);
    print("\n");
    for (;;)
        system_call(EXIT, 0, 0, 0, 0);
}
