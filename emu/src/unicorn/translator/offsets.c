/*
 * Offsets of CPU state. build/offsets.rs compiles this file to assembly text and never assembles it: each line that
 * OFFSET emits becomes a constant of `unicorn::offsets`. So no offset is written by hand, and a new version of Unicorn
 * moves them all.
 */
#include "qemu/osdep.h"
#include "cpu.h"

#define OFFSET(name, member)                                                                                           \
    __asm__ volatile("\n->" #name " %c0 %c1" : : "i"(offsetof(CPUArchState, member)), "i"(sizeof(((CPUArchState *)0)->member)));

void offsets(void);

void offsets(void)
{
#include TRAPLINE_OFFSETS
}
