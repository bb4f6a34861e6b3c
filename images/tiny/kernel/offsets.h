/* Offsets shared by assembly, symbol table and C; tiny.h checks them against the C structures. */
#pragma once

#ifndef KERNEL_STACK_SIZE
#define KERNEL_STACK_SIZE 8192
#endif
#define PERCPU_SIZE 1024
#define MAX_CPUS 2

/* struct task */
#define TASK_SP 0
#define TASK_PID WORD
#define TASK_COMM (TASK_PID + 4)

/* struct percpu, in words of the machine */
#define PERCPU_SELF 0
#define PERCPU_CURRENT (1 * WORD)
#define PERCPU_KERNEL_SP (2 * WORD)
#define PERCPU_USER_SP (3 * WORD)
#define PERCPU_GDT (8 * WORD)
