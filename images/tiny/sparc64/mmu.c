/* Programs' page tables, for the software TLB miss handlers. Kernel text and data have locked TLB entries. */
#include "board.h"
#include "tiny.h"

extern char __init_begin[], __init_end[];

static pte_t no_program[256] __attribute__((aligned(8192)));

unsigned long kernel_pgd(void) { return __pa(no_program); }

void arch_mm_tables(struct mm *mm)
{
	mm->user_ptes = alloc_pages(0);
	clear_page(mm->user_ptes);
	mm->pgd = mm->user_ptes;
}

void arch_free_mm_tables(struct mm *mm) { free_pages(mm->user_ptes, 0); }

static inline void store_alternate(unsigned long address, unsigned long value, const int space)
{
	asm volatile("stxa %0, [%1] %2" ::"r"(value), "r"(address), "i"(space) : "memory");
}

static inline unsigned long primary_context(void)
{
	unsigned long context;
	asm volatile("ldxa [%1] %2, %0" : "=r"(context) : "r"(MMU_PRIMARY), "i"(ASI_DATA_MMU) : "memory");
	return context;
}

/* Flushes this CPU only: a program runs on one CPU at a time, and gets a new ASID on another. */
void flush_page(unsigned long address)
{
	store_alternate(address & -PAGE_SIZE, 0, ASI_DATA_DEMAP);
	store_alternate(address & -PAGE_SIZE, 0, ASI_FETCH_DEMAP);
	asm volatile("flush %g6");
}

static noinline void flush_programs(void)
{
	for (unsigned long entry = FIRST_ENTRY; entry <= LAST_ENTRY; entry++) {
		store_alternate(entry << 3, 0, ASI_DATA_ENTRY);
		store_alternate(entry << 3, 0, ASI_FETCH_ENTRY);
	}
}

/* Gives the address space a context number (ASID) that was not used since the last flush of user entries. */
void load_pgd(unsigned long physical)
{
	register unsigned long table asm("o0") = (unsigned long)__va(physical), before asm("o1");
	unsigned long context = (primary_context() + 1) & 0x1fff;

	/* PSTATE.MG selects the MMU globals, whose %g7 holds the table for the TLB miss handlers. */
	asm volatile("rdpr %%pstate, %0\n\t"
		     "wrpr %%g0, %2, %%pstate\n\t"
		     "mov %1, %%g7\n\t"
		     "wrpr %0, 0, %%pstate"
		     : "=&r"(before) : "r"(table), "i"(PSTATE_KERNEL | PSTATE_MG) : "memory");
	if (context == 0) {
		flush_programs();
		context = 1;
	}
	store_alternate(MMU_PRIMARY, context, ASI_DATA_MMU);
	asm volatile("flush %g6");
	if (this_cpu()->next_entry == 0)
		this_cpu()->next_entry = FIRST_ENTRY;
}

/* Does nothing: locked TLB entries of 4 MiB map kernel memory, too large for the rights of single sections. */
void mark_rodata_ro(void) {}

/* Frees the init section. Overwrites its text, so that a late jump there does not find old code. */
void free_initmem(void)
{
	memset(__init_begin, 0xcc, __init_end - __init_begin);
	for (char *page = __init_begin; page < __init_end; page += PAGE_SIZE)
		free_pages(page, 0);
}
