/* String functions for the compiler and the kernel, as plain loops. Faster ones are in arch.h. */
#include "tiny.h"

void *memcpy(void *to, const void *from, usize n)
{
	u8 *out = to;
	const u8 *in = from;
	while (n--)
		*out++ = *in++;
	return to;
}

void *memset(void *to, int byte, usize n)
{
	u8 *out = to;
	while (n--)
		*out++ = byte;
	return to;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (u8)*a - (u8)*b;
}
