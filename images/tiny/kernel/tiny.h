/* The structures of the tiny kernel, and the functions that its files share. */
#pragma once

#include "arch.h"
#include "offsets.h"
#include "types.h"

/* The kernel stack whose stack pointer was this when it was empty. */
#ifndef STACK_OF
#define STACK_OF(sp) ((sp) - KERNEL_STACK_SIZE)
#endif
/* An unmapped kernel address. */
#ifndef NOWHERE
#define NOWHERE (KERNEL_BASE + 0x3000000)
#endif

/* ---- tasks and the scheduler: sched.c, fork.c ---- */

enum { TASK_RUNNING, TASK_SLEEPING, TASK_DEAD, TASK_FREE };
enum { MAX_TASKS = 32, MAX_FILES = 6 };

struct wait_queue {
	struct task *first;
};

struct task {
	unsigned long sp; /* TASK_SP: the kernel stack pointer while the task does not run */
	int pid;	  /* TASK_PID */
	char comm[16];	  /* TASK_COMM */
	int state;
	int queued;	   /* on the run queue or on a CPU */
	int need_resched;
	int exit_code;
	struct task *next; /* on the run queue */
	struct task *parent;
	struct wait_queue *waiting_on;
	struct task *wait_next;
	u64 wake_at; /* 0: not asleep for a time */
	struct wait_queue child_exit;
	struct mm *mm; /* NULL: lives in the kernel's own page tables */
	unsigned long stack;
	struct file *files[MAX_FILES];
};

_Static_assert(__builtin_offsetof(struct task, sp) == TASK_SP, "TASK_SP");
_Static_assert(__builtin_offsetof(struct task, pid) == TASK_PID, "TASK_PID");
_Static_assert(__builtin_offsetof(struct task, comm) == TASK_COMM, "TASK_COMM");

extern struct task tasks[MAX_TASKS];
extern u32 context_switches;

void sched_init(int cpu, struct task *idle);
void schedule(void);
void preempt_schedule_irq(void);
void schedule_tail(struct task *prev);
void schedule_timeout(u64 nanoseconds);
void prepare_to_wait(struct wait_queue *queue);
void finish_wait(struct wait_queue *queue);
void wake_up(struct wait_queue *queue);
void wake_up_new_task(struct task *task);
void scheduler_tick(void);
int task_is_dead(struct task *task);
void do_task_dead(void) __noreturn;
void cpu_idle(void) __noreturn;
struct task *__switch_to_asm(struct task *prev, struct task *next);
struct task *__switch_to(struct task *prev, struct task *next);

#define wait_event(queue, condition)                                                                                   \
	do {                                                                                                           \
		for (;;) {                                                                                             \
			prepare_to_wait(queue);                                                                        \
			if (condition)                                                                                 \
				break;                                                                                 \
			schedule();                                                                                    \
		}                                                                                                      \
		finish_wait(queue);                                                                                    \
	} while (0)

enum { CLONE_VM = 0x100, CLONE_FILES = 0x400, SIGCHLD = 17, SIGILL = 4, SIGSEGV = 11 };
long do_fork(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs, unsigned long stack_size,
	     int __user *parent_tidptr, int __user *child_tidptr);
void do_exit(long code) __noreturn;
long do_wait(int __user *status);
int kernel_thread(int (*fn)(void *), void *arg);
int do_execve(const char *path, unsigned long arg);
void set_task_comm(struct task *task, const char *name);
void copy_thread(struct task *child, struct pt_regs *regs, unsigned long stack_start);
struct pt_regs *task_pt_regs(struct task *task);

/* ---- memory: mm.c, uaccess.c ---- */

/* The page that a page-table entry maps. */
#ifndef pte_page
#define pte_page(pte) __va((pte) & PTE_ADDRESS)
#endif

struct mm {
	pte_t *pgd;
	pte_t *user_ptes; /* one table covers all of user space: USER_BASE .. USER_END */
};

void mm_init(void);
void mark_rodata_ro(void);
void free_initmem(void);
void *alloc_pages(int order);
void free_pages(void *address, int order);
struct mm *mm_create(void);
struct mm *mm_copy(struct mm *from);
void mm_destroy(struct mm *mm);
int handle_mm_fault(struct mm *mm, unsigned long address);
void arch_mm_tables(struct mm *mm);
void arch_free_mm_tables(struct mm *mm);
extern u32 demand_faults;

long copy_to_user(void __user *to, const void *from, usize n);
long copy_from_user(void *to, const void __user *from, usize n);
long strncpy_from_user(char *to, const char __user *from, long n);
long probe_kernel_read(void *to, const void *from, usize n);
long probe_kernel_write(void *to, const void *from, usize n);

/* ---- files: fs.c ---- */

struct file_operations {
	ssize (*read)(struct file *file, char __user *buf, usize count, u32 *pos);
	ssize (*write)(struct file *file, const char __user *buf, usize count, u32 *pos);
};

struct inode {
	const char *name;
	const char *data;
	u32 size;
	u32 mode;
	const struct file_operations *ops;
	void (*entry)(unsigned long); /* of a program */
};

struct file {
	struct inode *inode;
	u32 pos;
	int count;
	int flags;
};

enum { O_RDONLY = 0, O_WRONLY = 1 };
struct inode *path_lookup(const char *name);
struct file *filp_open(const char *name, int flags);
void filp_close(struct file *file);
ssize vfs_read(struct file *file, char __user *buf, usize count, u32 *pos);
ssize vfs_write(struct file *file, const char __user *buf, usize count, u32 *pos);
long sys_open(const char __user *filename, int flags, int mode);
long sys_close(int fd);
long sys_read(int fd, char __user *buf, usize count);
long sys_write(int fd, const char __user *buf, usize count);

/* ---- the network: net.c ---- */

struct sk_buff {
	struct sk_buff *next;
	u32 seq;
	u32 len;
	u32 flags;
	u8 data[44];
};

long sys_sendto(u32 seq, const void __user *data, usize len);
int dev_queue_xmit(struct sk_buff *skb);
void net_rx_action(void);
int tcp_v4_rcv(struct sk_buff *skb);
void net_drain(void);

/* ---- system calls: syscall.c ---- */

void do_syscall(struct pt_regs *regs);

/* ---- work, results, console: work.c, threads.c, main.c, print.c ---- */

enum result { R_PIPE, R_NET, R_SORT, R_RECURSION, R_BYTECODE, R_FILES, R_FORK, R_FAULT, R_TRAP, R_MISC, RESULTS };

extern int user_rounds;
void report(enum result kind, u64 value); /* a sum, so the order of reports does not matter */
u64 mix(u64 hash, u64 value);
void start_work(void);
u64 run_bench(u32 rounds);
void printk(const char *format, ...) __attribute__((format(printf, 1, 2)));
void panic(const char *why) __noreturn;

void start_kernel(unsigned long boot_info) __noreturn;
void start_secondary(unsigned long cpu) __noreturn;

/* ---- probes.c ---- */

extern u32 breakpoints_seen, bugs_repaired, jprobes_seen;
void jprobe_return(void);

/* ---- string.c ---- */

void *memcpy(void *to, const void *from, usize n);
void *memset(void *to, int byte, usize n);
int strcmp(const char *a, const char *b);
