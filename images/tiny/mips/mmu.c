/* Programs' tables, of which this CPU knows nothing: the refill of the TLB goes by them. The kernel's own text and data are seen without. */
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

/* They always were; text is seen where no entry can keep anybody from writing. */
void mark_rodata_ro(void) {}

/* The init section becomes ordinary free memory: text that was there is gone for good. */
void free_initmem(void)
{
	memset(__init_begin, 0xcc, __init_end - __init_begin);
	for (char *page = __init_begin; page < __init_end; page += PAGE_SIZE)
		free_pages(page, 0);
}
