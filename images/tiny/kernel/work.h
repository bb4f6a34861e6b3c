/* Functions for tests to probe; each has a property that is difficult for a probe engine. */
#pragma once

#include "types.h"

u32 fibonacci(u32 n);
u32 ackermann(u32 m, u32 n);
u64 weave(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);
u32 hand_over(u32 value, u32 depth);
u32 run_bytecode(u32 seed, u32 rounds);
u64 sort_numbers(u32 seed);
unsigned long loop_into_head(unsigned long count);
u32 instruction_zoo(u32 seed);
void bench_target(long a, long b, long c);
u32 count_blacklisted_calls(u32 n);
