/* Boot code: from the machine's entry (64-bit mode, translation off) to C at kernel addresses. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"

	.globl current_task, __task_pid_offset, __task_comm_offset, lowcore_current, lowcore_percpu
	.set current_task, LOW_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM
	.set lowcore_current, KERNEL_BASE + LOW_CURRENT
	.set lowcore_percpu, KERNEL_BASE + LOW_PERCPU

#define PORTS_PHYSICAL 0x09000000
#define BOOT_INFO 0x1000
#define RAM_SEGMENTS 16

	/* Stores a PSW into the lowcore. With translation off, relative addresses are physical. */
	.macro psw at mask symbol offset
	llihf %r4, (\mask) >> 32
	oilf %r4, (\mask) & 0xffffffff
	stg %r4, \at
	larl %r4, \symbol
	algfi %r4, \offset
	stg %r4, \at + 8
	.endm

	.section .head.text, "ax"
	.globl _head
	.type _head, @function
_head: /* r2: which CPU this is, r3: the boot information */
	lgr %r12, %r2
	cije %r12, 0, .Lfirst
0:	lgrl %r1, tables_are_ready
	cgije %r1, 0, 0b
	larl %r1, .Lprefix
	spx 0(%r1)
	j .Lown_page
	.balign 4
.Lprefix:
	.long second_lowcore - LOAD_OFFSET

	/* The first CPU builds the tables: the kernel's region and segments, pages for all RAM and for the machine's entries. */
.Lfirst:
	larl %r1, swapper_pg_dir
	lghi %r2, TABLE_ENTRIES
	lghi %r3, ENTRY_INVALID | REGION
	brasl %r14, .Lfill
	larl %r2, kernel_segments
	oill %r2, REGION
	stg %r2, 8(%r1)
	larl %r1, kernel_segments
	lghi %r2, TABLE_ENTRIES
	lghi %r3, ENTRY_INVALID
	brasl %r14, .Lfill
	lgr %r5, %r1
	larl %r1, no_segments
	lghi %r2, TABLE_ENTRIES
	brasl %r14, .Lfill
	larl %r1, kernel_ptes
	lghi %r2, RAM_SEGMENTS
1:	stg %r1, 0(%r5)
	la %r5, 8(%r5)
	aghi %r1, 0x800
	brctg %r2, 1b
	larl %r1, kernel_ptes
	lghi %r2, RAM_SEGMENTS * 256
	lghi %r3, PTE_PRESENT
2:	stg %r3, 0(%r1)
	la %r1, 8(%r1)
	aghi %r3, 0x1000
	brctg %r2, 2b
	larl %r1, device_ptes
	larl %r5, kernel_segments
	stg %r1, 8 * (PORTS_PHYSICAL >> 20)(%r5)
	lghi %r2, 256
	llilf %r3, PORTS_PHYSICAL | PTE_PRESENT
3:	stg %r3, 0(%r1)
	la %r1, 8(%r1)
	aghi %r3, 0x1000
	brctg %r2, 3b
	lghi %r1, 1
	stgrl %r1, tables_are_ready

	/* The lowcore, at real address 0 on every CPU. */
.Lown_page:
	psw LOW_EXTERNAL_NEW, PSW_WIDE, external_first, 0
	psw LOW_CALL_NEW, PSW_WIDE, call_first, 0
	psw LOW_PROGRAM_NEW, PSW_WIDE, program_first, 0
	psw LOW_RETURN_GOES, PSW_WIDE, return_last, 0
	psw LOW_EXTERNAL_GOES, PSW_KERNEL, external_entry, LOAD_OFFSET
	psw LOW_CALL_GOES, PSW_KERNEL, call_entry, LOAD_OFFSET
	psw LOW_PROGRAM_GOES, PSW_KERNEL, program_entry, LOAD_OFFSET
	psw LOW_RETURN, PSW_KERNEL, .Lmapped, LOAD_OFFSET
	larl %r1, percpu_areas
	algfi %r1, LOAD_OFFSET
	sllg %r2, %r12, 10 /* PERCPU_SIZE */
	agr %r1, %r2
	stg %r1, LOW_PERCPU
	larl %r3, percpu_areas
	lg %r3, PERCPU_CURRENT(%r2, %r3)
	stg %r3, LOW_CURRENT
	larl %r1, .Lspaces
	lctlg %c13, %c13, 0(%r1)
	lctlg %c1, %c1, 8(%r1)
	lctlg %c7, %c7, 8(%r1)
	lpswe LOW_RETURN

	/* Sets r2 entries at r1 to r3. */
.Lfill:
	lgr %r4, %r1
4:	stg %r3, 0(%r4)
	la %r4, 8(%r4)
	brctg %r2, 4b
	br %r14

	.balign 8
.Lspaces:
	.quad swapper_pg_dir - LOAD_OFFSET + REGIONS
	.quad no_segments - LOAD_OFFSET

.Lmapped:
	larl %r15, boot_stacks
	la %r1, 1(%r12)
	sllg %r1, %r1, 13 /* KERNEL_STACK_SIZE */
	agr %r15, %r1
	aghi %r15, -(FRAME_HEAD + PT_REGS_SIZE)
	xc 0(FRAME_HEAD, %r15), 0(%r15)
	cijne %r12, 0, .Lsecondary
	lghi %r2, BOOT_INFO
	brasl %r14, start_kernel

.Lsecondary: /* spins until the first CPU is ready */
	lrl %r1, secondary_may_start
	cije %r1, 0, .Lsecondary
	lgr %r2, %r12
	brasl %r14, start_secondary
	.size _head, . - _head

	.section .bss
	.macro table name bytes alignment=4096
	.balign \alignment
	.globl \name
	.type \name, @object
	.size \name, \bytes
\name:
	.skip \bytes
	.endm

table second_lowcore 0x2000 0x2000
table swapper_pg_dir 0x1000
table kernel_segments 0x1000
table no_segments 0x1000
table kernel_ptes 8 * 256 * RAM_SEGMENTS
table device_ptes 0x800
table boot_stacks KERNEL_STACK_SIZE * MAX_CPUS
table tables_are_ready 8 8
