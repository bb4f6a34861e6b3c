/*
 * Contains a crash of the CPU core: while `trapline_contain` runs a function, whatever would end the process from
 * inside it comes back as a number instead (unicorn/crash.rs, docs/unicorn.md, "Last net").
 *
 * Unicorn ends the process in three ways. It calls `exit` and `g_assertion_message_expr`: both are defined here, and
 * this object stands in front of the C library and of Unicorn on every link line. It calls `abort`, or faults: both
 * arrive as signals. The way out is `siglongjmp` to the innermost `trapline_contain` of the thread, so every frame
 * between is left as it is. The caller must not use the core again.
 *
 * Crashes outside of `trapline_contain`, and in other threads, end the process as if this file did not exist.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The numbers that `trapline_contain` returns: a signal's own, or one of these. */
enum { RETURNED = 0, ASSERTION = 128, EXIT = 256 };

struct containment {
    sigjmp_buf back;
    struct containment *outer;
};

static __thread struct containment *innermost;
/* Source file, line and text of the last failed assertion, for the sentence about it. */
static __thread char assertion[160];

static const int SIGNALS[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
enum { SIGNAL_COUNT = sizeof(SIGNALS) / sizeof(SIGNALS[0]) };
static struct sigaction handlers_before[SIGNAL_COUNT];

static void leave(int number) __attribute__((noreturn));

static void leave(int number)
{
    siglongjmp(innermost->back, number);
}

/* Called for a crash outside of `trapline_contain`: puts the handler back that was there before ours. */
static void pass_on(int number, const siginfo_t *info)
{
    for (int n = 0; n < SIGNAL_COUNT; n++) {
        if (SIGNALS[n] == number) {
            sigaction(number, &handlers_before[n], NULL);
        }
    }
    /* The instruction of a fault runs again after the return and faults again, now under the old handler. A signal that
       another process or `raise` has sent (si_code <= 0) would be lost, so it is raised again. */
    if (info->si_code <= 0) {
        raise(number);
    }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (innermost) {
        leave(number);
    }
    pass_on(number, info);
}

static void install_handlers(void)
{
    /* The signal stays unblocked because nobody returns from the handler. The stack is Rust's alternate one, so that an
       overflow of the thread's own stack is contained, too. */
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

    sigemptyset(&action.sa_mask);
    for (int n = 0; n < SIGNAL_COUNT; n++) {
        sigaction(SIGNALS[n], &action, &handlers_before[n]);
    }
}

/* Calls `run`. Returns 0 if `run` returned. If it crashed, returns a signal number, ASSERTION, or EXIT plus the status. */
int trapline_contain(void (*run)(void *), void *argument)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct containment here;
    int end;

    pthread_once(&once, install_handlers);
    here.outer = innermost;
    end = sigsetjmp(here.back, 0);
    if (end == RETURNED) {
        innermost = &here;
        run(argument);
    }
    innermost = here.outer;
    return end;
}

/* The text of the thread's last failed assertion. */
const char *trapline_assertion(void)
{
    return assertion;
}

/* Replaces Unicorn's function of that name, which prints to standard output and aborts. */
void g_assertion_message_expr(const char *file, int line, const char *text) __attribute__((noreturn));

void g_assertion_message_expr(const char *file, int line, const char *text)
{
    snprintf(assertion, sizeof(assertion), "%s:%d: %s", file, line, text ? text : "not reached");
    if (innermost) {
        leave(ASSERTION);
    }
    fprintf(stderr, "%s\n", assertion);
    abort();
}

/* Replaces the C library's function of that name: the linker finds this one first. */
void exit(int status)
{
    static void (*real_exit)(int);

    if (innermost) {
        leave(EXIT | (status & 0xff));
    }
    *(void **)&real_exit = dlsym(RTLD_NEXT, "exit");
    if (real_exit) {
        real_exit(status);
    }
    _exit(status);
}
