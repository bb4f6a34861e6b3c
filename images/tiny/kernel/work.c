/* Functions for tests to probe: recursion, tail calls, stack arguments, a jump table, a sort with a function pointer. */
#include "work.h"
#include "tiny.h"

u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/* ---- recursion ---- */

noinline u32 fibonacci(u32 n)
{
	if (n < 2)
		return n;
	u32 before = fibonacci(n - 2);
	barrier(); /* or the compiler turns half of it into a loop */
	return before + fibonacci(n - 1);
}

noinline u32 ackermann(u32 m, u32 n)
{
	if (!m)
		return n + 1;
	if (!n)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

/* ---- arguments beyond the registers ---- */

noinline u64 weave(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	u64 hash = mix(a, b);
	hash = mix(hash + (u32)c, (u32)d);
	hash = mix(hash + (u32)e, (u32)f);
	hash = mix(hash + (u32)g, (u32)h);
	return mix(hash + (u32)i, (u32)j);
}

/* ---- tail calls: three functions that hand over to each other with a jump ---- */

static noinline u32 hand_over_odd(u32 value, u32 depth);
static noinline u32 hand_over_even(u32 value, u32 depth);

noinline u32 hand_over(u32 value, u32 depth)
{
	if (!depth)
		return value;
	return depth & 1 ? hand_over_odd(value, depth) : hand_over_even(value, depth);
}
static noinline u32 hand_over_odd(u32 value, u32 depth) { return hand_over(value * 3 + 1, depth - 1); }
static noinline u32 hand_over_even(u32 value, u32 depth) { return hand_over((value >> 1) ^ depth, depth - 1); }

/* ---- a bytecode interpreter with a switch ---- */

enum { OP_PUSH, OP_DUP, OP_SWAP, OP_ADD, OP_MUL, OP_XOR, OP_ROTATE, OP_STEP, OP_LOOP, OP_OVER, OP_NOT, OP_END };

static const u8 program[] = {
	OP_OVER, OP_PUSH, 77, OP_ADD, OP_DUP, OP_MUL, OP_XOR, OP_ROTATE, OP_NOT, OP_SWAP, OP_STEP, OP_SWAP, OP_LOOP, OP_END,
};

noinline u32 run_bytecode(u32 seed, u32 rounds)
{
	u32 stack[8] = { rounds, seed }, *top = stack + 1;

	for (const u8 *pc = program;;) {
		switch (*pc++) {
		case OP_PUSH:
			*++top = *pc++;
			break;
		case OP_DUP:
			top[1] = top[0];
			top++;
			break;
		case OP_SWAP: {
			u32 upper = top[0];
			top[0] = top[-1];
			top[-1] = upper;
			break;
		}
		case OP_ADD:
			top--;
			top[0] += top[1];
			break;
		case OP_MUL:
			top--;
			top[0] *= top[1] | 1;
			break;
		case OP_XOR:
			top--;
			top[0] ^= top[1];
			break;
		case OP_ROTATE:
			top[0] = top[0] << 7 | top[0] >> 25;
			break;
		case OP_STEP:
			top[0]--;
			break;
		case OP_LOOP: /* the count is below the value on the stack */
			if (top[-1])
				pc = program;
			break;
		case OP_OVER:
			top[1] = top[-1];
			top++;
			break;
		case OP_NOT:
			top[0] = ~top[0];
			break;
		case OP_END:
			return top[0];
		}
	}
}

/* ---- quicksort, with the order as a pointer to a function ---- */

enum { NUMBERS = 96 };
typedef int (*compare_fn)(u32 a, u32 b);

static noinline int ascending(u32 a, u32 b) { return a < b ? -1 : a > b; }
static noinline int descending(u32 a, u32 b) { return ascending(b, a); }

static noinline void quicksort(u32 *from, u32 *to, compare_fn compare)
{
	if (to - from < 2)
		return;
	u32 pivot = from[(to - from) / 2], *low = from, *high = to - 1;
	while (low <= high) {
		while (compare(*low, pivot) < 0)
			low++;
		while (compare(*high, pivot) > 0)
			high--;
		if (low <= high) {
			u32 other = *low;
			*low++ = *high;
			*high-- = other;
		}
	}
	quicksort(from, high + 1, compare);
	quicksort(low, to, compare);
}

noinline u64 sort_numbers(u32 seed)
{
	u32 numbers[NUMBERS];
	u64 hash = seed;

	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = seed = seed * 1664525 + 1013904223;
	quicksort(numbers, numbers + NUMBERS, seed & 0x10000 ? ascending : descending);
	for (int i = 0; i < NUMBERS; i++)
		hash = mix(hash, numbers[i]);
	return hash;
}

/* ---- the benchmark: an empty function with a tracing prologue ---- */

noinline void bench_target(long a, long b, long c)
{
	(void)a, (void)b, (void)c;
	asm volatile(TRACER_NOP);
}

noinline u64 run_bench(u32 rounds)
{
	u64 start = clock_ns();

	for (u32 i = 0; i < rounds; i++)
		bench_target(i, 2, 3);
	return clock_ns() - start;
}
