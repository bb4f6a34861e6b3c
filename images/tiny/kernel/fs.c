/* A read-only file system: a few texts, devices, a pipe, programs. Calls go from sys_ to vfs_ to the file's operation. */
#include "board.h"
#include "lock.h"
#include "tiny.h"

enum { OPEN_FILES = 32, PIPE_RECORDS = 8, NAME_MAX = 32 };

void user_files(unsigned long rounds);
void user_forker(unsigned long rounds);
void user_pinger(unsigned long rounds);

static struct file file_table[OPEN_FILES];
static struct spinlock files_lock;

/* ---- operations ---- */

static ssize text_read(struct file *file, char __user *buf, usize count, u32 *pos)
{
	u32 left = file->inode->size - *pos;

	if (count > left)
		count = left;
	if (copy_to_user(buf, file->inode->data + *pos, count))
		return -EFAULT;
	*pos += count;
	return count;
}

static ssize null_read(struct file *file, char __user *buf, usize count, u32 *pos)
{
	(void)file, (void)buf, (void)count, (void)pos;
	return 0;
}

static ssize null_write(struct file *file, const char __user *buf, usize count, u32 *pos)
{
	(void)file, (void)buf;
	*pos += count;
	return count;
}

static ssize zero_read(struct file *file, char __user *buf, usize count, u32 *pos)
{
	static const char zeroes[32];
	usize done = 0;

	(void)file;
	while (done < count) {
		usize part = count - done < sizeof(zeroes) ? count - done : sizeof(zeroes);
		if (copy_to_user(buf + done, zeroes, part))
			return -EFAULT;
		done += part;
	}
	*pos += done;
	return done;
}

static ssize console_dev_write(struct file *file, const char __user *buf, usize count, u32 *pos)
{
	char line[64];

	(void)file;
	if (count >= sizeof(line))
		count = sizeof(line) - 1;
	if (copy_from_user(line, buf, count))
		return -EFAULT;
	line[count] = 0;
	printk("%s: %s\n", current->comm, line);
	*pos += count;
	return count;
}

/* The pipe transfers 32-bit records. Several readers may sleep in pipe_read. */
static struct {
	struct spinlock lock;
	u32 records[PIPE_RECORDS];
	u32 written, taken;
	int writers;
	struct wait_queue changed;
} the_pipe;

static int pipe_get(u32 *record)
{
	unsigned long flags = spin_lock_irqsave(&the_pipe.lock);
	int got = the_pipe.taken != the_pipe.written;

	if (got)
		*record = the_pipe.records[the_pipe.taken++ % PIPE_RECORDS];
	else if (!the_pipe.writers)
		got = -1;
	spin_unlock_irqrestore(&the_pipe.lock, flags);
	return got;
}

static int pipe_put(u32 record)
{
	unsigned long flags = spin_lock_irqsave(&the_pipe.lock);
	int room = the_pipe.written - the_pipe.taken < PIPE_RECORDS;

	if (room)
		the_pipe.records[the_pipe.written++ % PIPE_RECORDS] = record;
	spin_unlock_irqrestore(&the_pipe.lock, flags);
	return room;
}

static ssize pipe_read(struct file *file, char __user *buf, usize count, u32 *pos)
{
	u32 record = 0;
	int got;

	(void)file, (void)pos;
	if (count < sizeof(record))
		return -EINVAL;
	wait_event(&the_pipe.changed, (got = pipe_get(&record)));
	if (got < 0)
		return 0;
	wake_up(&the_pipe.changed);
	return copy_to_user(buf, &record, sizeof(record)) ? -EFAULT : (ssize)sizeof(record);
}

static ssize pipe_write(struct file *file, const char __user *buf, usize count, u32 *pos)
{
	u32 record;

	(void)file, (void)pos;
	if (count != sizeof(record) || copy_from_user(&record, buf, count))
		return -EFAULT;
	wait_event(&the_pipe.changed, pipe_put(record));
	wake_up(&the_pipe.changed);
	return count;
}

static const struct file_operations text_ops = { .read = text_read };
static const struct file_operations null_ops = { .read = null_read, .write = null_write };
static const struct file_operations zero_ops = { .read = zero_read, .write = null_write };
static const struct file_operations console_ops = { .write = console_dev_write };
static const struct file_operations pipe_ops = { .read = pipe_read, .write = pipe_write };

#define TEXT(s) .data = s, .size = sizeof(s) - 1, .ops = &text_ops

static struct inode inodes[] = {
	{ .name = "/etc/motd", .mode = 0444, TEXT("Probe me gently: every byte of this text is counted.\n") },
	{ .name = "/etc/shadow", .mode = 0, TEXT("not for you\n") },
	{ .name = "/proc/version", .mode = 0444, TEXT("tiny kernel, for trapline\n") },
	{ .name = "/dev/null", .mode = 0666, .ops = &null_ops },
	{ .name = "/dev/zero", .mode = 0666, .ops = &zero_ops },
	{ .name = "/dev/console", .mode = 0222, .ops = &console_ops },
	{ .name = "/run/pipe", .mode = 0666, .ops = &pipe_ops },
	{ .name = "/bin/files", .mode = 0555, .ops = &null_ops, .entry = user_files },
	{ .name = "/bin/forker", .mode = 0555, .ops = &null_ops, .entry = user_forker },
	{ .name = "/bin/pinger", .mode = 0555, .ops = &null_ops, .entry = user_pinger },
};

/* ---- names and open files ---- */

noinline struct inode *path_lookup(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(inodes); i++)
		if (!strcmp(inodes[i].name, name))
			return &inodes[i];
	return NULL;
}

static noinline struct file *get_empty_file(void)
{
	unsigned long flags = spin_lock_irqsave(&files_lock);
	struct file *found = NULL;

	for (struct file *file = file_table; file < file_table + OPEN_FILES && !found; file++)
		if (!file->count)
			found = file;
	if (found)
		found->count = 1;
	spin_unlock_irqrestore(&files_lock, flags);
	return found;
}

static noinline void pipe_writers_change(int by)
{
	unsigned long flags = spin_lock_irqsave(&the_pipe.lock);
	the_pipe.writers += by;
	spin_unlock_irqrestore(&the_pipe.lock, flags);
	wake_up(&the_pipe.changed);
}

static noinline int may_open(struct inode *inode, int flags)
{
	u32 wanted = flags & O_WRONLY ? 0222 : 0444;
	return inode->mode & wanted ? 0 : -EACCES;
}

/* Returns NULL on failure, with the reason in *error. */
static noinline struct file *do_filp_open(const char *name, int flags, int *error)
{
	struct inode *inode = path_lookup(name);
	struct file *file;

	*error = inode ? may_open(inode, flags) : -ENOENT;
	if (*error)
		return NULL;
	file = get_empty_file();
	if (!file) {
		*error = -EMFILE;
		return NULL;
	}
	file->inode = inode;
	file->pos = 0;
	file->flags = flags;
	if (inode->ops == &pipe_ops && flags & O_WRONLY)
		pipe_writers_change(1);
	return file;
}

noinline struct file *filp_open(const char *name, int flags)
{
	int error;
	return do_filp_open(name, flags, &error);
}

noinline void filp_close(struct file *file)
{
	if (__sync_sub_and_fetch(&file->count, 1))
		return;
	if (file->inode->ops == &pipe_ops && file->flags & O_WRONLY)
		pipe_writers_change(-1);
}

/* ---- reading and writing: the operation is a tail call ---- */

noinline ssize vfs_read(struct file *file, char __user *buf, usize count, u32 *pos)
{
	if (file->flags & O_WRONLY)
		return -EBADF;
	if (!file->inode->ops->read)
		return -EINVAL;
	return file->inode->ops->read(file, buf, count, pos);
}

noinline ssize vfs_write(struct file *file, const char __user *buf, usize count, u32 *pos)
{
	if (!(file->flags & O_WRONLY))
		return -EBADF;
	if (!file->inode->ops->write)
		return -EINVAL;
	return file->inode->ops->write(file, buf, count, pos);
}

/* ---- system calls ---- */

/* The name in kernel memory, or NULL with the reason in *error. */
static noinline const char *getname(const char __user *filename, char *into, int *error)
{
	long length = strncpy_from_user(into, filename, NAME_MAX);

	if (length >= 0 && length < NAME_MAX)
		return into;
	*error = length < 0 ? length : -ENAMETOOLONG;
	return NULL;
}

static noinline long fd_install(struct file *file)
{
	for (int fd = 0; fd < MAX_FILES; fd++) {
		if (current->files[fd])
			continue;
		current->files[fd] = file;
		return fd;
	}
	filp_close(file);
	return -EMFILE;
}

static noinline long do_sys_open(const char *name, int flags, int mode)
{
	int error;
	struct file *file = do_filp_open(name, flags, &error);

	(void)mode;
	return file ? fd_install(file) : error;
}

noinline long sys_open(const char __user *filename, int flags, int mode)
{
	char buffer[NAME_MAX];
	int error = 0;
	const char *name = getname(filename, buffer, &error);

	return name ? do_sys_open(name, flags, mode) : error;
}

static struct file *fget(int fd) { return fd >= 0 && fd < MAX_FILES ? current->files[fd] : NULL; }

noinline long sys_close(int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return -EBADF;
	current->files[fd] = NULL;
	filp_close(file);
	return 0;
}

noinline long sys_read(int fd, char __user *buf, usize count)
{
	struct file *file = fget(fd);
	return file ? vfs_read(file, buf, count, &file->pos) : -EBADF;
}

noinline long sys_write(int fd, const char __user *buf, usize count)
{
	struct file *file = fget(fd);
	return file ? vfs_write(file, buf, count, &file->pos) : -EBADF;
}
