/* The interface to CPU and board; each architecture implements it. */
#pragma once

#include "types.h"

void trap_init(void);
void cpu_init(int cpu);
void safe_halt(void); /* enables interrupts and waits for one, atomically */
void console_write(const char *text);
void timer_start(u32 nanoseconds);
void send_reschedule(int cpu);
void power_off(int status) __noreturn;
void triple_fault(void) __noreturn;
unsigned long kernel_pgd(void);
extern volatile u32 secondary_may_start;
