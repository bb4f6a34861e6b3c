/*
 * A program that lies to its kernel when it returns from a signal, as any user may: in a child of its own for each lie, the
 * handler changes one word of the frame that sigreturn reads back, and returns. The kernel must refuse or survive what it finds
 * there, and the CPU must take every register, mode and address that the kernel lets through.
 *
 * Freestanding, without a C library, so that one file serves every ISA of Debian's. It prints one line, with how many children
 * went on, were killed by a signal, or had to be killed because they no longer ended.
 */

typedef unsigned long word;

#if defined(__x86_64__)
enum { EXIT = 60, FORK = 57, WRITE = 1, GETPID = 39, KILL = 62, WAIT4 = 61, NANOSLEEP = 35, SIGACTION = 13,
       SETSID = 112, SETUID = 105, SETRLIMIT = 160, CLOSE = 3 };
#elif defined(__aarch64__) || defined(__riscv)
enum { EXIT = 93, CLONE = 220, WRITE = 64, GETPID = 172, KILL = 129, WAIT4 = 260, NANOSLEEP = 101, SIGACTION = 134,
       SETSID = 157, SETUID = 146, SETRLIMIT = 164, CLOSE = 57 };
#elif defined(__mips64)
enum { EXIT = 5058, FORK = 5056, WRITE = 5001, GETPID = 5038, KILL = 5060, WAIT4 = 5059, NANOSLEEP = 5034, SIGACTION = 5013,
       SETSID = 5110, SETUID = 5103, SETRLIMIT = 5155, CLOSE = 5003 };
#elif defined(__mips__)
enum { EXIT = 4001, FORK = 4002, WRITE = 4004, GETPID = 4020, KILL = 4037, WAIT4 = 4114, NANOSLEEP = 4166, SIGACTION = 4194,
       SETSID = 4066, SETUID = 4023, SETRLIMIT = 4075, CLOSE = 4006 };
#elif defined(__powerpc64__)
enum { EXIT = 1, FORK = 2, WRITE = 4, GETPID = 20, KILL = 37, WAIT4 = 114, NANOSLEEP = 162, SIGACTION = 173,
       SETSID = 66, SETUID = 23, SETRLIMIT = 75, CLOSE = 6 };
#else /* i386, arm, s390x */
enum { EXIT = 1, FORK = 2, WRITE = 4, GETPID = 20, KILL = 37, WAIT4 = 114, NANOSLEEP = 162, SIGACTION = 174,
       SETSID = 66, CLOSE = 6, SETUID = 213, SETRLIMIT = 75 };
#endif

static word system_call(word number, word first, word second, word third, word fourth)
{
#if defined(__x86_64__)
    register word r10 __asm__("r10") = fourth;
    word result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10) : "rcx", "r11", "memory");
    return result;
#elif defined(__i386__)
    word result;
    __asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(first), "c"(second), "d"(third), "S"(fourth) : "memory");
    return result;
#elif defined(__aarch64__)
    register word x8 __asm__("x8") = number, x0 __asm__("x0") = first, x1 __asm__("x1") = second, x2 __asm__("x2") = third,
                  x3 __asm__("x3") = fourth;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#elif defined(__arm__)
    register word r7 __asm__("r7") = number, r0 __asm__("r0") = first, r1 __asm__("r1") = second, r2 __asm__("r2") = third,
                  r3 __asm__("r3") = fourth;
    __asm__ volatile("svc #0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3) : "memory");
    return r0;
#elif defined(__riscv)
    register word a7 __asm__("a7") = number, a0 __asm__("a0") = first, a1 __asm__("a1") = second, a2 __asm__("a2") = third,
                  a3 __asm__("a3") = fourth;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3) : "memory");
    return a0;
#elif defined(__s390x__)
    register word r1 __asm__("1") = number, r2 __asm__("2") = first, r3 __asm__("3") = second, r4 __asm__("4") = third,
                  r5 __asm__("5") = fourth;
    __asm__ volatile("svc 0" : "+d"(r2) : "d"(r1), "d"(r3), "d"(r4), "d"(r5) : "memory", "cc");
    return r2;
#elif defined(__powerpc64__)
    register word r0 __asm__("r0") = number, r3 __asm__("r3") = first, r4 __asm__("r4") = second, r5 __asm__("r5") = third,
                  r6 __asm__("r6") = fourth;
    __asm__ volatile("sc" : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6)
                     :: "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
    return r3;
#elif defined(__mips__)
    register word v0 __asm__("$2") = number, a0 __asm__("$4") = first, a1 __asm__("$5") = second, a2 __asm__("$6") = third,
                  a3 __asm__("$7") = fourth;
    __asm__ volatile("syscall" : "+r"(v0), "+r"(a3) : "r"(a0), "r"(a1), "r"(a2)
                     : "$1", "$3", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25", "hi", "lo", "memory");
    return v0;
#endif
}

#if defined(__mips__)
enum { SIGINFO = 8, CHILDREN = 8 };
#else
enum { SIGINFO = 4, CHILDREN = 6 };
#endif
enum { ALARM = 10, KILLED = 9, NOT_YET = 1, RESTORER = 0x04000000, ON_CHILD_DEATH = 17 };

/* The kernel's own form of struct sigaction, which no C library shows. */
struct action {
#if defined(__mips__)
    unsigned int flags;
    void (*handler)(int, void *, void *);
    unsigned int mask[4];
#else
    void (*handler)(int, void *, void *);
    word flags;
#if !defined(__riscv)
    void (*restorer)(void);
#endif
    unsigned int mask[2];
#endif
};

#if defined(__x86_64__)
void restorer(void);
__asm__(".globl restorer\nrestorer: mov $15, %eax\nsyscall");
#endif

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

static word child(void)
{
#if defined(__aarch64__) || defined(__riscv)
    return system_call(CLONE, ON_CHILD_DEATH, 0, 0, 0);
#else
    return system_call(FORK, 0, 0, 0, 0);
#endif
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

/* How many children ended in each way. */
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

static void print(const char *text)
{
    word length = 0;
    while (text[length])
        length++;
    system_call(WRITE, 1, (word)text, length, 0);
}

static void print_number(unsigned int value)
{
    char digits[12];
    char *at = digits + sizeof digits;
    *--at = 0;
    do
        *--at = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    print(at);
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
