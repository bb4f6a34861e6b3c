/* Page tables of programs, and rights of the boot's text, for the TLB miss handlers. Included by mmu.c. */

extern pte_t kernel_ptes[512], no_program[512];
_Static_assert(USER_TABLE == USER_BASE >> 21, "USER_TABLE");
_Static_assert(USER_BACKING == USER_STACK, "USER_BACKING");

unsigned long kernel_pgd(void) { return __pa(no_program); }

void arch_mm_tables(struct mm *mm)
{
	mm->user_ptes = new_table();
	mm->pgd = mm->user_ptes;
}

void arch_free_mm_tables(struct mm *mm) { free_pages(mm->user_ptes, 0); }

/* The kernel's data is mapped by translation registers, which give it these rights from the start. */
static inline pte_t kernel_pte(unsigned long physical, unsigned long rights)
{
	return physical | PTE_PAGE | (rights & PAGE_NX ? (rights & PAGE_WRITE ? PTE_WRITES : PTE_READS) : PTE_RUNS);
}

static inline void forget_identity_map(void) {}

/* Gives the address space a number that was not used since the last flush. */
void load_pgd(unsigned long physical)
{
	enum { FIRST = 16, LAST = 0x3ffff };
	struct percpu *area = this_cpu();

	if (area->space < FIRST || area->space == LAST) {
		asm volatile("ptc.e %0\n\t;;\n\tsrlz.i\n\t;;" ::"r"(0) : "memory");
		area->space = FIRST;
	}
	area->space++;
	asm volatile("mov ar.k7=%0\n\tmov rr[r0]=%1\n\t;;\n\tsrlz.i\n\t;;" ::"r"(__va(physical)), "r"(area->space << 8 | 12 << 2) : "memory");
}
