/* Creation and end of tasks: do_fork, do_exit, wait, and execve from a kernel thread. */
#include "board.h"
#include "lock.h"
#include "tiny.h"

/* The idle tasks come first; free slots have state TASK_FREE. */
struct task tasks[MAX_TASKS] = { [MAX_CPUS ... MAX_TASKS - 1] = { .state = TASK_FREE } };
static struct spinlock tasks_lock;
static int next_pid = 1;

void start_thread(unsigned long ip, unsigned long sp, unsigned long arg);

void set_task_comm(struct task *task, const char *name)
{
	unsigned i;
	for (i = 0; i < sizeof(task->comm) - 1 && name[i]; i++)
		task->comm[i] = name[i];
	for (; i < sizeof(task->comm); i++)
		task->comm[i] = 0;
}

static noinline struct task *alloc_task(void)
{
	unsigned long flags = spin_lock_irqsave(&tasks_lock);
	struct task *task = tasks + MAX_CPUS, *found = NULL;

	for (; task < tasks + MAX_TASKS && !found; task++)
		if (task->state == TASK_FREE)
			found = task;
	if (found) {
		memset(found, 0, sizeof(*found));
		found->state = TASK_SLEEPING;
		found->pid = next_pid++;
	}
	spin_unlock_irqrestore(&tasks_lock, flags);
	return found;
}

static noinline void copy_files(struct task *child)
{
	for (int fd = 0; fd < MAX_FILES; fd++) {
		child->files[fd] = current->files[fd];
		if (child->files[fd])
			__sync_fetch_and_add(&child->files[fd]->count, 1);
	}
}

static noinline struct task *copy_process(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs)
{
	struct task *child = alloc_task();

	if (!child)
		return NULL;
	child->parent = current;
	child->stack = (unsigned long)alloc_pages(1);
	set_task_comm(child, current->comm);
	copy_files(child);
	if (!(clone_flags & CLONE_VM) && current->mm)
		child->mm = mm_copy(current->mm);
	copy_thread(child, regs, stack_start);
	return child;
}

noinline long do_fork(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs, unsigned long stack_size,
		      int __user *parent_tidptr, int __user *child_tidptr)
{
	struct task *child;
	int pid;

	if (stack_size && !stack_start)
		return -EINVAL;
	child = copy_process(clone_flags, stack_start, regs);
	if (!child)
		return -EAGAIN;
	pid = child->pid;
	if (parent_tidptr && copy_to_user(parent_tidptr, &pid, sizeof(pid)))
		pid = -EFAULT;
	if (child_tidptr && copy_to_user(child_tidptr, &pid, sizeof(pid)))
		pid = -EFAULT;
	wake_up_new_task(child);
	return pid;
}

/* Switches to the kernel's page tables and frees the task's. */
static noinline void leave_mm(void)
{
	struct mm *mm = current->mm;
	unsigned long flags = local_irq_save();

	current->mm = NULL;
	this_cpu()->active_pgd = kernel_pgd();
	load_pgd(kernel_pgd());
	local_irq_restore(flags);
	if (mm)
		mm_destroy(mm);
}

noinline void do_exit(long code)
{
	for (int fd = 0; fd < MAX_FILES; fd++)
		if (current->files[fd])
			filp_close(current->files[fd]);
	leave_mm();
	current->exit_code = code;
	do_task_dead();
}

static noinline struct task *find_child(int *children)
{
	struct task *dead = NULL;

	*children = 0;
	for (struct task *task = tasks + MAX_CPUS; task < tasks + MAX_TASKS; task++) {
		if (task->state == TASK_FREE || task->parent != current)
			continue;
		++*children;
		if (task_is_dead(task))
			dead = task;
	}
	return dead;
}

/* Waits for any child and stores its exit code in `status`. Returns its pid, or -ECHILD. */
noinline long do_wait(int __user *status)
{
	struct task *child;
	int children, code, pid;

	wait_event(&current->child_exit, (child = find_child(&children)) || !children);
	if (!child)
		return -ECHILD;
	code = child->exit_code;
	pid = child->pid;
	free_pages((void *)child->stack, 1);
	child->parent = NULL;
	barrier();
	child->state = TASK_FREE;
	if (status && copy_to_user(status, &code, sizeof(code)))
		return -EFAULT;
	return pid;
}

/* Turns the calling kernel thread into a program, which starts when the thread's function returns. */
noinline int do_execve(const char *path, unsigned long arg)
{
	struct inode *inode = path_lookup(path);
	unsigned long flags;

	if (!inode || !inode->entry)
		return -ENOENT;
	struct mm *mm = mm_create();
	flags = local_irq_save();
	current->mm = mm;
	this_cpu()->active_pgd = __pa(mm->pgd);
	load_pgd(__pa(mm->pgd));
	local_irq_restore(flags);
	set_task_comm(current, path + 5); /* without "/bin/" */
	start_thread((unsigned long)inode->entry, USER_END - 2 * sizeof(long), arg);
	return 0;
}
