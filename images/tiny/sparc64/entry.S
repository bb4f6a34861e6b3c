/* Entry and exit: TLB misses, window traps, exceptions, interrupts, the context switch, a task's first instructions. */
#include "arch.h"
#include "offsets.h"
#include "asm.h"

#define PERCPU_NEXT_ENTRY (8 * WORD)
#define INTERRUPT 0x4e
#define SYSTEM_CALL 0x16d

	/* Spill and fill of a window, at the stack pointer that it holds. */
	.macro spill
	.irp number, 0,1,2,3,4,5,6,7
	stx %l\number, [%sp + BIAS + 8 * \number]
	stx %i\number, [%sp + BIAS + 64 + 8 * \number]
	.endr
	saved
	retry
	.endm
	.macro fill
	.irp number, 0,1,2,3,4,5,6,7
	ldx [%sp + BIAS + 8 * \number], %l\number
	ldx [%sp + BIAS + 64 + 8 * \number], %i\number
	.endr
	restored
	retry
	.endm
	/* The trap table: eight instructions per trap, then a second half for traps inside traps. */
	.section .vectors, "ax"
	.balign 32768
	.globl vectors
	.type vectors, @object
vectors:
	.set .Lplace, 0
	.rept 2
	.set .Lnumber, 0
	.rept 512 - 6
	.if .Lnumber == 0x80
	spill
	.elseif .Lnumber == 0xc0
	fill
	.elseif .Lnumber == 0x64
	ba,a .Lfetch_miss
	.elseif .Lnumber == 0x68
	ba,a .Ldata_miss
	.elseif .Lnumber == 0x6c
	ba,a data_protected
	.else
	ba,a trap_entry
	.endif
	.set .Lplace, .Lplace + 32
	.set .Lnumber, .Lnumber + 1
	.if .Lnumber == 0x81 || .Lnumber == 0xc1 /* these two go on where the next ones would be */
	.set .Lnumber, .Lnumber + 3
	.set .Lplace, .Lplace + 96
	.endif
	.org vectors + .Lplace
	.endr
	.endr
	.balign 32
	.size vectors, . - vectors

	/* For the test that removes the vectors: every exception raises another one. */
	.balign 32768
	.globl no_vectors
	.type no_vectors, @object
no_vectors:
	.skip 0x4000 + 32 * 0x11
	.size no_vectors, . - no_vectors

	/* Loads a TLB entry from the program's page table, replacing entries in turn; or reports a fault if there is none. */
	.macro miss mmu, entry
	mov MMU_ACCESS, %g1
	ldxa [%g1] \mmu, %g5
	srlx %g5, 21, %g2
	cmp %g2, 2 /* USER_BASE */
	bne,pn %xcc, trap_entry_at
	 srlx %g5, 13 - 3, %g2
	and %g2, 255 << 3, %g2
	ldx [%g7 + %g2], %g3
	brgez,pn %g3, trap_entry_at
	 ldx [%g6 + PERCPU_NEXT_ENTRY], %g4
	.endm

	/* These are not called, so the first must not look like a function that returns. */
	.text
function tlb_misses
	.word 0
.Ldata_miss:
	miss ASI_DATA_MMU
	sllx %g4, 3, %g2
	stxa %g3, [%g2] ASI_DATA_ENTRY
	ba .Lnext_entry
	 add %g4, 1, %g4
.Lfetch_miss:
	miss ASI_FETCH_MMU
	srlx %g3, 50, %g2 /* TTE_RUN */
	andcc %g2, 1, %g0
	be,pn %xcc, trap_entry_at
	 sllx %g4, 3, %g2
	stxa %g3, [%g2] ASI_FETCH_ENTRY
	add %g4, 1, %g4
.Lnext_entry:
	cmp %g4, LAST_ENTRY
	bg,a,pn %xcc, 1f
	 mov FIRST_ENTRY, %g4
1:	stx %g4, [%g6 + PERCPU_NEXT_ENTRY]
	retry
end tlb_misses

	.section .entry.text, "ax"
function data_protected
	mov MMU_ACCESS, %g1
	ba trap_entry_at
	 ldxa [%g1] ASI_DATA_MMU, %g5
end data_protected

function trap_entry
	clr %g5
end trap_entry

/* g5: the fault address, g6: this CPU's area. Returns the address of pt_regs in l0 and o0, and the trap number. */
function trap_entry_at
	rdpr %tstate, %g1
	andcc %g1, TSTATE_PRIV, %g0
	bne,pn %xcc, from_kernel
	 rdpr %tt, %g4
	ldx [%g6 + PERCPU_KERNEL_SP], %g2
	sub %g2, PT_REGS_SIZE, %g2
	.irp number, 0,1,2,3,4,5,6,7
	stx %o\number, [%g2 + PT_O + 8 * \number]
	stx %l\number, [%g2 + PT_L + 8 * \number]
	stx %i\number, [%g2 + PT_I + 8 * \number]
	.endr
	wrpr %g0, WINDOWS - 2, %cansave /* a program has one window, which is saved here */
	wrpr %g0, 0, %canrestore
	mov %g2, %l0
	sub %g2, FRAME + BIAS, %sp
	clr %fp
	ba entered
	 clr %i7

from_kernel:
	save %sp, -(FRAME + PT_REGS_SIZE), %sp
	add %sp, BIAS + FRAME, %l0
	.irp number, 0,1,2,3,4,5,6,7
	stx %i\number, [%l0 + PT_O + 8 * \number]
	.endr
entered:
	mov %g4, %l1
	mov %g5, %l2
	mov %g6, %l4
	rd %y, %l3
	rdpr %tstate, %l5
	rdpr %tpc, %l6
	rdpr %tnpc, %l7
	cmp %l1, SYSTEM_CALL
	bne,pt %xcc, 1f
	 stx %l3, [%l0 + PT_Y]
	mov %l7, %l6 /* continue behind it */
	add %l7, 4, %l7
1:	stx %l5, [%l0 + PT_FLAGS]
	stx %l6, [%l0 + PT_IP]
	stx %l7, [%l0 + PT_NPC]
	stx %l6, [%l0 + PT_CAME_FROM]
	wrpr %g0, 0, %tl
	wrpr %g0, PSTATE_KERNEL, %pstate
	.irp number, 1,2,3,4,5,6,7
	stx %g\number, [%l0 + PT_G + 8 * \number]
	.endr
	mov %l4, %g6
	cmp %l1, INTERRUPT
	be,pn %xcc, 2f
	 mov %l0, %o0
	mov %l1, %o1
	call do_trap
	 mov %l2, %o2
	ba return_from_exception
	 nop
2:	call do_interrupt
	 nop
end trap_entry_at

function return_from_exception
	wrpr %g0, PSTATE_KERNEL, %pstate
	call prepare_return
	 add %sp, BIAS + FRAME, %o0
	add %sp, BIAS + FRAME, %l0
	ldx [%l0 + PT_FLAGS], %l5
	ldx [%l0 + PT_IP], %l6
	ldx [%l0 + PT_NPC], %l7
	ldx [%l0 + PT_CAME_FROM], %l4
	ldx [%l0 + PT_Y], %l3
	cmp %l4, %l6
	bne,a,pn %xcc, 1f
	 add %l6, 4, %l7 /* it continues elsewhere */
1:	wr %l3, 0, %y
	.irp number, 1,2,3,4,5
	ldx [%l0 + PT_G + 8 * \number], %g\number
	.endr
	andcc %l5, TSTATE_PRIV, %g0
	bne,pn %xcc, to_kernel
	 andn %l5, 0x1f, %l5
	ldx [%l0 + PT_G + 48], %g6
	ldx [%l0 + PT_G + 56], %g7
	wrpr %g0, PSTATE_KERNEL | PSTATE_AG, %pstate
	rdpr %cwp, %g3
	or %l5, %g3, %g1
	mov %l0, %g2
	wrpr %g0, 1, %tl
	wrpr %g1, %tstate
	wrpr %l6, %tpc
	wrpr %l7, %tnpc
	wrpr %g0, WINDOWS - 2, %cansave
	wrpr %g0, 0, %canrestore
	.irp number, 0,1,2,3,4,5,6,7
	ldx [%g2 + PT_O + 8 * \number], %o\number
	ldx [%g2 + PT_L + 8 * \number], %l\number
	ldx [%g2 + PT_I + 8 * \number], %i\number
	.endr
	retry

to_kernel: /* g6 is the CPU's, which may be another one now */
	.irp number, 0,1,2,3,4,5,7
	ldx [%l0 + PT_O + 8 * \number], %i\number
	.endr
	wrpr %g0, PSTATE_KERNEL | PSTATE_AG, %pstate
	mov %l5, %g1
	wrpr %g0, 1, %tl
	wrpr %l6, %tpc
	wrpr %l7, %tnpc
	restore
	rdpr %cwp, %g3 /* the window may differ too */
	or %g1, %g3, %g1
	wrpr %g1, %tstate
	retry
end return_from_exception

/* A new task's first instruction: o0 = the task before, l0 = function of a kernel thread, l1 = its argument. */
function ret_from_fork
	call schedule_tail
	 nop
	brz,pn %l0, 1f
	 nop
	jmpl %l0, %o7 /* returns only if the thread became a program */
	 mov %l1, %o0
1:	ba return_from_exception
	 nop
end ret_from_fork

	.text
function __switch_to_asm /* o0: previous task, o1: next */
	save %sp, -FRAME, %sp
	flushw /* spills all other windows */
	stx %fp, [%sp + BIAS + 64 + 48]
	stx %i7, [%sp + BIAS + 64 + 56]
	stx %sp, [%i0 + TASK_SP]
	ldx [%i1 + TASK_SP], %sp
	ldx [%sp + BIAS + 64 + 48], %fp
	ldx [%sp + BIAS + 64 + 56], %i7
	stx %i1, [%g6 + PERCPU_CURRENT] /* `current` changes together with the return address */
	ba __switch_to
	 restore
end __switch_to_asm

/* A loop that jumps back into the first bytes of its function, for tests of jumps. */
function loop_into_head /* o0: a count above 0; returns the sum of 1..count */
	clr %o1
1:	add %o1, %o0, %o1
	subcc %o0, 1, %o0
	bne,pt %icc, 1b
	 nop
	retl
	 srl %o1, 0, %o0
end loop_into_head
