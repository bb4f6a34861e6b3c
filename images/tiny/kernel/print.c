/* The console: each line has its time. Virtual time does not count probes, so lines do not differ. */
#include "board.h"
#include "lock.h"
#include "tiny.h"

enum { LINE = 160 };

struct line {
	char text[LINE];
	int length;
};

static struct spinlock console_lock;

static void put(struct line *line, char c)
{
	if (line->length < LINE - 1)
		line->text[line->length++] = c;
}

/* Long division by a small number, in 32-bit steps: i386 has no 64-bit division. */
static u32 divide(u64 *value, u32 by)
{
	u64 high = *value >> 32, low = *value & 0xffffffff, quotient = 0;
	u32 rest = (u32)high % by;

	quotient = (u64)((u32)high / by) << 32;
	for (int bit = 31; bit >= 0; bit--) {
		u64 wide = (u64)rest << 1 | (low >> bit & 1);
		rest = wide;
		if (wide >= by) {
			rest = wide - by;
			quotient |= 1ull << bit;
		}
	}
	*value = quotient;
	return rest;
}

static noinline void put_number(struct line *line, u64 value, u32 base, int width, char pad)
{
	char digits[24];
	int n = 0;

	do {
		u32 digit;
		if (base == 16) {
			digit = value & 15;
			value >>= 4;
		} else if (value >> 32) {
			digit = divide(&value, base);
		} else {
			digit = (u32)value % base;
			value = (u32)value / base;
		}
		digits[n++] = "0123456789abcdef"[digit];
	} while (value);
	while (width-- > n)
		put(line, pad);
	while (n)
		put(line, digits[--n]);
}

static noinline void put_string(struct line *line, const char *s, int width)
{
	int n = 0;
	for (; s[n]; n++)
		put(line, s[n]);
	while (n++ < width)
		put(line, ' ');
}

/* %s %d %u %x %c with a width, 0 and l, ll; nothing else. */
static noinline void format_line(struct line *line, const char *format, __builtin_va_list args)
{
	for (; *format; format++) {
		int width = 0, longs = 0;
		char pad = ' ';
		u64 value;

		if (*format != '%') {
			put(line, *format);
			continue;
		}
		format++;
		if (*format == '-')
			format++;
		if (*format == '0')
			pad = '0';
		while (*format >= '0' && *format <= '9')
			width = width * 10 + *format++ - '0';
		while (*format == 'l')
			longs++, format++;
		if (*format == 's') {
			put_string(line, __builtin_va_arg(args, const char *), width);
			continue;
		}
		if (longs == 2)
			value = __builtin_va_arg(args, u64);
		else if (longs == 1)
			value = __builtin_va_arg(args, unsigned long);
		else
			value = __builtin_va_arg(args, u32);
		if (*format == 'd' && (s32)value < 0) {
			put(line, '-');
			value = -(s32)value;
		}
		put_number(line, value, *format == 'x' ? 16 : 10, width, pad);
	}
}

void printk(const char *format, ...)
{
	struct line line;
	__builtin_va_list args;
	unsigned long flags;

	line.length = 0;
	flags = spin_lock_irqsave(&console_lock);
	u64 now = clock_ns();
	u32 nanoseconds = divide(&now, 1000000000);
	put(&line, '[');
	put_number(&line, now, 10, 5, ' ');
	put(&line, '.');
	put_number(&line, nanoseconds / 1000, 10, 6, '0');
	put(&line, ']');
	put(&line, ' ');
	__builtin_va_start(args, format);
	format_line(&line, format, args);
	__builtin_va_end(args);
	line.text[line.length] = 0;
	console_write(line.text);
	spin_unlock_irqrestore(&console_lock, flags);
}

void panic(const char *why)
{
	local_irq_disable();
	printk("Kernel panic - not syncing: %s\n", why);
	power_off(1);
}
