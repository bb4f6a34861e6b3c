/* Access to memory that may be unmapped: copies with an exception table entry. */
#include "tiny.h"

/* Only programs are limited to user addresses: kernel threads pass kernel buffers to these functions. */
static inline int access_ok(const void __user *at, usize n)
{
	unsigned long address = (unsigned long)at;
	return !current->mm || (address < USER_END && n <= USER_END - address);
}

long copy_to_user(void __user *to, const void *from, usize n)
{
	if (!access_ok(to, n))
		return -EFAULT;
	return copy_until_fault(to, from, n) ? -EFAULT : 0;
}

long copy_from_user(void *to, const void __user *from, usize n)
{
	if (!access_ok(from, n))
		return -EFAULT;
	return copy_until_fault(to, from, n) ? -EFAULT : 0;
}

/* The length without the zero, or n if none was found, or -EFAULT. */
noinline long strncpy_from_user(char *to, const char __user *from, long n)
{
	for (long i = 0; i < n; i++) {
		int byte = access_ok(from + i, 1) ? load_byte(from + i) : -1;
		if (byte < 0)
			return -EFAULT;
		to[i] = byte;
		if (!byte)
			return i;
	}
	return n;
}

/* For kernel addresses that may be invalid. */
noinline long probe_kernel_write(void *to, const void *from, usize n)
{
	return copy_until_fault(to, from, n) ? -EFAULT : 0;
}

noinline long probe_kernel_read(void *to, const void *from, usize n)
{
	return copy_until_fault(to, from, n) ? -EFAULT : 0;
}
