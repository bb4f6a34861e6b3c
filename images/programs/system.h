/*
 * System calls of Linux, signals and output for freestanding programs of any ISA of Debian's, and of the 32-bit ones that its 64-bit
 * kernels run too.
 */

typedef unsigned long word;

#if defined(__x86_64__)
enum { EXIT = 60, FORK = 57, WRITE = 1, GETPID = 39, KILL = 62, WAIT4 = 61, NANOSLEEP = 35, SIGACTION = 13,
       SETSID = 112, SETUID = 105, SETRLIMIT = 160, CLOSE = 3, CLONE = 56, YIELD = 24 };
#elif defined(__aarch64__) || defined(__riscv)
enum { EXIT = 93, CLONE = 220, WRITE = 64, GETPID = 172, KILL = 129, WAIT4 = 260, NANOSLEEP = 101, SIGACTION = 134,
       SETSID = 157, SETUID = 146, SETRLIMIT = 164, CLOSE = 57, YIELD = 124 };
#elif defined(__mips__) && _MIPS_SIM == _ABIN32
enum { EXIT = 6058, FORK = 6056, WRITE = 6001, GETPID = 6038, KILL = 6060, WAIT4 = 6059, NANOSLEEP = 6034, SIGACTION = 6013,
       SETSID = 6110, SETUID = 6103, SETRLIMIT = 6155, CLOSE = 6003, CLONE = 6055, YIELD = 6023 };
#elif defined(__mips64)
enum { EXIT = 5058, FORK = 5056, WRITE = 5001, GETPID = 5038, KILL = 5060, WAIT4 = 5059, NANOSLEEP = 5034, SIGACTION = 5013,
       SETSID = 5110, SETUID = 5103, SETRLIMIT = 5155, CLOSE = 5003, CLONE = 5055, YIELD = 5023 };
#elif defined(__mips__)
enum { EXIT = 4001, FORK = 4002, WRITE = 4004, GETPID = 4020, KILL = 4037, WAIT4 = 4114, NANOSLEEP = 4166, SIGACTION = 4194,
       SETSID = 4066, SETUID = 4023, SETRLIMIT = 4075, CLOSE = 4006, CLONE = 4120, YIELD = 4162 };
#elif defined(__powerpc64__)
enum { EXIT = 1, FORK = 2, WRITE = 4, GETPID = 20, KILL = 37, WAIT4 = 114, NANOSLEEP = 162, SIGACTION = 173,
       SETSID = 66, SETUID = 23, SETRLIMIT = 75, CLOSE = 6, CLONE = 120, YIELD = 158 };
#else /* i386, arm, s390x */
enum { EXIT = 1, FORK = 2, WRITE = 4, GETPID = 20, KILL = 37, WAIT4 = 114, NANOSLEEP = 162, SIGACTION = 174,
       SETSID = 66, CLOSE = 6, SETUID = 213, SETRLIMIT = 75, CLONE = 120, YIELD = 158 };
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
#elif defined(__s390__)
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
enum { ALARM = 10, RESTORER = 0x04000000, ON_CHILD_DEATH = 17 };

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

__attribute__((unused)) static word child(void)
{
#if defined(__aarch64__) || defined(__riscv)
    return system_call(CLONE, ON_CHILD_DEATH, 0, 0, 0);
#else
    return system_call(FORK, 0, 0, 0, 0);
#endif
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
