// SPDX-License-Identifier: GPL-2.0
// Planted faults for tests of --on-panic. A word that is written to /proc/faults chooses one. Each spoils a word of memory in a
// function of its own, some time before the kernel notices.
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

struct loan {
	struct loan *next;
	u32 number;
	char rest[52];
};

static struct loan *loans;

noinline struct loan *loan_new(u32 number)
{
	struct loan *loan = kmalloc(sizeof(*loan), GFP_KERNEL);

	loan->number = number;
	loan->next = loans;
	loans = loan;
	return loan;
}

// The memory of a note belongs to a loan, too, if that was freed twice.
noinline char *note_new(const char *text)
{
	char *note = kmalloc(sizeof(struct loan), GFP_KERNEL);

	memcpy(note, text, 24);
	return note;
}

noinline u32 loans_sum(void)
{
	u32 sum = 0;

	for (struct loan *loan = loans; loan; loan = loan->next)
		sum += loan->number;
	return sum;
}

// Frees an object twice, with another one in between, which the allocator does not notice.
static noinline void free_twice(void)
{
	struct loan *one = loan_new(1), *other = loan_new(2);

	loans = NULL;
	kfree(one);
	kfree(other);
	kfree(one);
	loan_new(3);
	loan_new(4);
	note_new("paid back on the 24th of May");
	udelay(200);
	pr_info("sum %u\n", loans_sum());
}

struct member {
	u32 number;
	struct list_head node;
};

static LIST_HEAD(members);
static struct member rows[3];

noinline void spoil_list(struct member *member)
{
	member->node.prev = &rows[0].node;
}

static noinline void corrupt_list(void)
{
	for (int i = 0; i < 3; i++)
		list_add_tail(&rows[i].node, &members);
	spoil_list(&rows[2]);
	udelay(200);
	list_del(&rows[1].node);
}

noinline void spoil_stack(char *buffer, unsigned int length)
{
	for (unsigned int i = 0; i < length; i++)
		((volatile char *)buffer)[i] = 0x41 + i % 26;
}

static noinline unsigned int overflow_stack(unsigned int length)
{
	char buffer[32] = { 0 };

	spoil_stack(buffer, length);
	return buffer[3] + buffer[length % 32];
}

static void (*volatile action)(void) = free_twice;

noinline void spoil_action(void)
{
	action = (void *)0x1230;
}

static noinline void jump_wild(void)
{
	spoil_action();
	udelay(200);
	action();
}

static ssize_t faults_write(struct file *file, const char __user *text, size_t count, loff_t *pos)
{
	char word[16] = { 0 };

	if (copy_from_user(word, text, min(count, sizeof(word) - 1)))
		return -EFAULT;
	if (!strncmp(word, "twice", 5))
		free_twice();
	if (!strncmp(word, "list", 4))
		corrupt_list();
	if (!strncmp(word, "stack", 5))
		overflow_stack(44 + (word[5] == '!'));
	if (!strncmp(word, "jump", 4))
		jump_wild();
	return count;
}

static const struct proc_ops faults_ops = { .proc_write = faults_write };

static int __init faults_init(void)
{
	return proc_create("faults", 0600, NULL, &faults_ops) ? 0 : -ENOMEM;
}

static void __exit faults_exit(void)
{
	remove_proc_entry("faults", NULL);
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_DESCRIPTION("Planted faults");
MODULE_LICENSE("GPL");
