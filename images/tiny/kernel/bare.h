/* The board `bare`, the tables of addresses, and the user address range: common to all architectures. */
#pragma once

#define PORT_CONSOLE 0xe9
#define PORT_TIMER_PERIOD 0x500
#define PORT_TIME_LOW 0x504
#define PORT_TIME_HIGH 0x508
#define PORT_CPU_NUMBER 0x50c
#define PORT_CPU_COUNT 0x510
#define PORT_SEND_IPI 0x514
#define PORT_END_OF_INTERRUPT 0x518
#define PORT_IN_SERVICE 0x51c
#define PORT_POWER_OFF 0x600
#define PORT_SLEEP 0x604
#define VECTOR_TIMER 0x20
#define VECTOR_RESCHEDULE 0x21
#define BOOT_INFO_MAGIC 0x50415254

#ifndef __ASSEMBLER__

#include "types.h"

struct boot_info {
	u32 magic, version, ram_bytes, cpus, command_line;
};

/* An exception table entry: a fault at `insn` continues at `fixup`. Both are relative to themselves, as in Linux, and a third word follows them
   (not on PowerPC and PA-RISC). On 32-bit ARM, MIPS and SPARC both are absolute addresses without a third word. The bug table is alike. */
#ifdef __mips64
struct exception_table_entry {
	u64 insn, fixup;
};
#define TABLE_WORD ".dword "
#elif defined(__arm__) || defined(__mips__) || defined(__sparc__)
struct exception_table_entry {
	u32 insn, fixup;
};
#define TABLE_WORD ".long "
#endif
#ifdef TABLE_WORD
#define TABLE_SITE(label) label
#define TABLE_TYPE ""
#ifdef __sparc__
#define TABLE_ADDRESS(field) ((unsigned long)(u32)(field))
#else
#define TABLE_ADDRESS(field) ((unsigned long)(field))
#endif
#elif defined(__powerpc__) || defined(__hppa__)
struct exception_table_entry {
	s32 insn, fixup;
};
#define TABLE_WORD ".long "
#define TABLE_SITE(label) label " - ."
#define TABLE_TYPE ""
#define TABLE_ADDRESS(field) ((unsigned long)&(field) + (long)(field))
#else
struct exception_table_entry {
	s32 insn, fixup, type;
};
#define TABLE_WORD ".long "
#define TABLE_SITE(label) label " - ."
#define TABLE_TYPE ".long 1\n\t"
#define TABLE_ADDRESS(field) ((unsigned long)&(field) + (long)(field))
#endif
#define EX_TABLE(insn, fixup)                                                                                          \
	".pushsection __ex_table, \"a\"\n\t.balign 4\n\t" TABLE_WORD TABLE_SITE(#insn) "\n\t" TABLE_WORD TABLE_SITE(#fixup) "\n\t" TABLE_TYPE \
	".popsection\n\t"

/* A bug table entry: the ud2 at this address is deliberate. */
struct bug_entry {
	s32 insn, file;
	u16 line, flags;
};

#define USER_BASE 0x400000UL /* one table of 4 KiB pages: text, data at +0x80000, heap at +0x100000, stack at the end */
#define USER_DATA 0x480000UL
#define USER_HEAP 0x500000UL
#define USER_HEAP_END 0x540000UL
#define USER_STACK 0x5f0000UL
#define USER_END 0x600000UL

#endif
