/* Programs' page tables, for the software TLB refill. Kernel text and data are in KSEG0, which needs no TLB entries. */
#include "board.h"
#include "tiny.h"

extern char __init_begin[], __init_end[];

static pte_t no_program[512] __attribute__((aligned(4096)));

unsigned long kernel_pgd(void) { return __pa(no_program); }

void arch_mm_tables(struct mm *mm)
{
	mm->user_ptes = alloc_pages(0);
	clear_page(mm->user_ptes);
	mm->pgd = mm->user_ptes;
}

void arch_free_mm_tables(struct mm *mm) { free_pages(mm->user_ptes, 0); }

/* Does nothing: KSEG0 has no page tables, so no access rights can be set for kernel text and constants. */
void mark_rodata_ro(void) {}

/* Frees the init section. Overwrites its text, so that a late jump there does not find old code. */
void free_initmem(void)
{
	memset(__init_begin, 0xcc, __init_end - __init_begin);
	for (char *page = __init_begin; page < __init_end; page += PAGE_SIZE)
		free_pages(page, 0);
}
