/*
 * A program that lies to its kernel when it returns from a signal, as any user may: in a child of its own for each lie, the
 * handler changes one word of the frame that sigreturn reads back, and returns. The kernel must refuse or survive what it finds
 * there, and the CPU must take every register, mode and address that the kernel lets through.
 *
 * Freestanding, without a C library, so that one file serves every ISA of Debian's. It prints one line, with how many children
 * went on, were killed by a signal, or had to be killed because they no longer ended.
 */

#include "system.h"

enum { KILLED = 9, NOT_YET = 1 };

/* The lie of this child: which word of the frame, and how. */
static word place, cleared, flipped;
/* After the return, each child reads and writes here. */
static volatile word data[16];

static void handler(int number, void *info, void *context)
{
    volatile word *told = (volatile word *)context + place;
    (void)number, (void)info;
    *told = (*told & ~cleared) ^ flipped;
}

/* A user of its own, without output and children: registers that are wrong may lead into any system call. */
static void lie(void)
{
    word none[2] = { 0, 0 };
    system_call(CLOSE, 1, 0, 0, 0);
    system_call(CLOSE, 2, 0, 0, 0);
    system_call(SETSID, 0, 0, 0, 0);
    system_call(SETRLIMIT, CHILDREN, (word)none, 0, 0);
    system_call(SETUID, 1000, 0, 0, 0);
    system_call(KILL, system_call(GETPID, 0, 0, 0, 0), ALARM, 0, 0);
    for (int i = 0; i < 16; i++)
        data[i] = data[(i + 1) % 16] + (word)i;
    system_call(EXIT, 0, 0, 0, 0);
    for (;;)
        ;
}

/* The numbers of children that ended by themselves, that a signal killed, and, of the latter, that had to be killed because they hung. */
static unsigned int went_on, killed, hung;

static void try(word at, word clear, word flip)
{
    struct { long seconds, nanoseconds; } pause = { 0, 1000000 };
    int status = 0;
    place = at, cleared = clear, flipped = flip;
    word pid = child();
    if (pid == 0)
        lie();
    for (int waited = 0; system_call(WAIT4, pid, (word)&status, NOT_YET, 0) != pid; waited++) {
        if (waited == 20) {
            system_call(KILL, pid, KILLED, 0, 0);
            hung++;
        }
        /* There is no such child: the kernel has no system calls of this ISA, or no memory. */
        if (waited == 200)
            system_call(EXIT, 1, 0, 0, 0);
        system_call(NANOSLEEP, (word)&pause, 0, 0, 0);
    }
    if ((status & 0x7f) == 0)
        went_on++;
    else
        killed++;
}

#if defined(__x86_64__) || defined(__i386__)
__attribute__((force_align_arg_pointer))
#endif
void _start(void)
{
    enum { BITS = sizeof(word) * 8, WORDS = FRAME_BYTES / sizeof(word) };
    struct action action = { .handler = handler, .flags = SIGINFO };
#if defined(__x86_64__)
    action.flags |= RESTORER;
    action.restorer = restorer;
#endif
    system_call(SIGACTION, ALARM, (word)&action, 0, sizeof action.mask);
    for (word at = 0; at < WORDS; at++) {
        try(at, ~(word)0, 0);
        try(at, ~(word)0, ~(word)0);
        try(at, 0, (word)1 << (BITS - 1));
    }
    /* The words with modes and status, each bit of them. */
    for (word at = CONTROL_FROM / sizeof(word); at < CONTROL_TO / sizeof(word); at++)
        for (word bit = 0; bit < BITS; bit++)
            try(at, 0, (word)1 << bit);
    print("sigreturn: ");
    print_number(went_on);
    print(" went on, ");
    print_number(killed);
    print(" were killed, ");
    print_number(hung);
    print(" of them hung\n");
    system_call(EXIT, 0, 0, 0, 0);
}
