/* Boot code: from the machine's entry (privileged, MMU off) to C. */
#include "arch.h"
#include "bare.h"
#include "offsets.h"
#include "asm.h"

	.globl current_task, __task_pid_offset, __task_comm_offset
	.set current_task, PERCPU_CURRENT
	.set __task_pid_offset, TASK_PID
	.set __task_comm_offset, TASK_COMM

#define BOOT_INFO (RAM_START + 0x1000)
#define SEEN(entry) (TTE_VALID | TTE_LOCKED | TTE_KERNEL | TTE_GLOBAL | (entry))
#define RAM (TTE_LARGE | TTE_CACHED)

	/* Loads an entry into both TLBs or the data TLB: number, virtual address, physical address. */
	.macro entry asi_mmu, asi_entry, number, address, what
	setx \address, %g3, %g2
	stxa %g2, [%g1] \asi_mmu
	setx \what, %g3, %g2
	mov \number << 3, %g3
	stxa %g2, [%g3] \asi_entry
	.endm

	.section .head.text, "ax"
function _head /* o0: which CPU this is */
	wrpr %g0, PSTATE_KERNEL, %pstate
	wrpr %g0, 0, %tl
	wrpr %g0, 0, %pil
	wrpr %g0, WINDOWS - 2, %cansave
	wrpr %g0, 0, %canrestore
	wrpr %g0, 0, %otherwin
	wrpr %g0, WINDOWS - 1, %cleanwin
	wrpr %g0, 0, %wstate
	mov MMU_ACCESS, %g1
	entry ASI_FETCH_MMU, ASI_FETCH_ENTRY, 0, KERNEL_BASE, SEEN(RAM)
	entry ASI_FETCH_MMU, ASI_FETCH_ENTRY, 1, 0, SEEN(RAM) /* for this code */
	entry ASI_DATA_MMU, ASI_DATA_ENTRY, 0, KERNEL_BASE, SEEN(RAM | TTE_WRITE)
	entry ASI_DATA_MMU, ASI_DATA_ENTRY, 1, KERNEL_BASE + 0x400000, SEEN(RAM | TTE_WRITE | 0x400000)
	entry ASI_DATA_MMU, ASI_DATA_ENTRY, 2, KERNEL_BASE + 0x800000, SEEN(RAM | TTE_WRITE | 0x800000)
	entry ASI_DATA_MMU, ASI_DATA_ENTRY, 3, KERNEL_BASE + 0xc00000, SEEN(RAM | TTE_WRITE | 0xc00000)
	entry ASI_DATA_MMU, ASI_DATA_ENTRY, 4, KERNEL_BASE + CONSTANTS_OFFSET, SEEN(RAM)
	entry ASI_DATA_MMU, ASI_DATA_ENTRY, 5, PORTS, SEEN(TTE_DEVICE | TTE_WRITE | PORTS_PHYSICAL)
	mov MMU_PRIMARY, %g1
	stxa %g0, [%g1] ASI_DATA_MMU
	membar #Sync
	setx 1f, %g3, %g2
	mov 0xc, %g1
	stxa %g1, [%g0] ASI_LSU
	flush %g0
	jmp %g2
	 nop
1:	mov 1 << 3, %g1
	stxa %g0, [%g1] ASI_FETCH_ENTRY
	membar #Sync
	setx vectors, %g3, %g2
	wrpr %g2, %tba
	setx percpu_areas, %g3, %g2
	sllx %o0, 10, %g3 /* PERCPU_SIZE */
	add %g2, %g3, %g6
	mov %g6, %o2
	wrpr %g0, PSTATE_KERNEL | PSTATE_AG, %pstate
	mov %o2, %g6
	wrpr %g0, PSTATE_KERNEL | PSTATE_MG, %pstate
	mov %o2, %g6
	clr %g7
	wrpr %g0, PSTATE_KERNEL, %pstate
	setx boot_stacks + KERNEL_STACK_SIZE - PT_REGS_SIZE - FRAME - BIAS, %g3, %g2
	sllx %o0, 14, %g3 /* KERNEL_STACK_SIZE */
	add %g2, %g3, %sp
	clr %fp
	clr %i7
	brnz,pn %o0, .Lsecondary
	 nop
	setx start_kernel, %g3, %g2
	jmpl %g2, %o7
	 set BOOT_INFO, %o0

.Lsecondary: /* spins until the first CPU is ready */
	setx secondary_may_start, %g3, %g2
1:	lduw [%g2], %g3
	brz,a,pt %g3, 1b
	 nop
	setx start_secondary, %g3, %g2
	jmpl %g2, %o7
	 nop
end _head

	.section .bss
	.balign 16
	.globl boot_stacks
boot_stacks:
	.skip KERNEL_STACK_SIZE * MAX_CPUS
