// SPDX-License-Identifier: GPL-2.0
// The module of docs/tutorial.md. It keeps the last numbers that were written to /proc/shelf, and their sum. It has a
// planted fault.
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#define SLOTS 4

struct shelf {
	u32 slot[SLOTS];
	u32 sum;
	u32 next;
};

static struct shelf shelf;
static DEFINE_SPINLOCK(shelf_lock);

// Puts a number on the shelf. The oldest one makes room for it.
noinline void shelf_put(struct shelf *on, u32 number)
{
	u32 old;

	if (on->next > SLOTS)
		on->next = 0;
	old = on->slot[on->next];
	on->slot[on->next] = number;
	on->next++;
	on->sum += number - old;
}

static ssize_t shelf_write(struct file *file, const char __user *text, size_t count, loff_t *pos)
{
	u32 number;
	int error = kstrtou32_from_user(text, count, 0, &number);

	if (error)
		return error;
	spin_lock(&shelf_lock);
	shelf_put(&shelf, number);
	spin_unlock(&shelf_lock);
	return count;
}

static int shelf_show(struct seq_file *to, void *unused)
{
	spin_lock(&shelf_lock);
	seq_printf(to, "sum %u of %u %u %u %u\n", shelf.sum, shelf.slot[0], shelf.slot[1], shelf.slot[2], shelf.slot[3]);
	spin_unlock(&shelf_lock);
	return 0;
}

static int shelf_open(struct inode *inode, struct file *file)
{
	return single_open(file, shelf_show, NULL);
}

static const struct proc_ops shelf_ops = {
	.proc_open = shelf_open,
	.proc_read = seq_read,
	.proc_write = shelf_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init shelf_init(void)
{
	return proc_create("shelf", 0600, NULL, &shelf_ops) ? 0 : -ENOMEM;
}

static void __exit shelf_exit(void)
{
	remove_proc_entry("shelf", NULL);
}

module_init(shelf_init);
module_exit(shelf_exit);
MODULE_DESCRIPTION("A shelf of numbers with a planted fault");
MODULE_LICENSE("GPL");
