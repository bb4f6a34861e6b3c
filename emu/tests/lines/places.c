typedef unsigned long size_t;
typedef long ssize_t;
struct name { unsigned int hash; const char *text; };
struct dentry { int flags; struct name name; char iname[16]; struct dentry *parent; };
struct path { void *mnt; struct dentry *dentry; };
struct file {
	unsigned int mode : 3;
	unsigned int kind : 7;
	unsigned long wide : 40;
	struct path path;
	long pos;
	union { int left; short right; };
	int table[4];
};
static volatile long total;
int last_error;
static inline __attribute__((always_inline)) long add(long value, long more)
{
	long sum = value + more;
	total += sum;
	return sum;
}
__attribute__((noinline)) long check(struct file *file, size_t count)
{
	if (!file)
		return -9;
	return file->pos + count;
}
__attribute__((noinline)) ssize_t read_file(struct file *file, char *buffer, size_t count, long *pos)
{
	ssize_t ret;
	long local[3];

	ret = check(file, count);
	if (ret < 0)
		return ret;
	for (size_t at = 0; at < count; at++) {
		local[at % 3] = add(ret, at);
		buffer[at] = local[at % 3];
	}
	ret = add(ret, file->path.dentry->flags);
	*pos = ret + check(file, local[0]);
	last_error = ret;
	return ret;
}
void _start(void)
{
	struct dentry dentry = { .flags = 3 };
	struct file file = { .path.dentry = &dentry, .pos = 5, .kind = 2 };
	char buffer[8];
	long pos = 0;

	read_file(&file, buffer, sizeof(buffer), &pos);
	for (;;)
		;
}
