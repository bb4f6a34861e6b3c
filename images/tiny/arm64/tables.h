/* arm64 page tables: the kernel's are in ttbr1 and shared; a program's are in ttbr0. */

extern pte_t empty_zero_page[], level3_kernel_pgt[];
#define kernel_ptes level3_kernel_pgt

unsigned long kernel_pgd(void) { return __pa(empty_zero_page); }

/* The identity map was in ttbr0, which no CPU uses any more. */
static inline void forget_identity_map(void) {}

#define TABLE 3UL

void arch_mm_tables(struct mm *mm)
{
	pte_t *pud = new_table(), *pmd = new_table();

	mm->pgd = new_table();
	mm->user_ptes = new_table();
	mm->pgd[0] = __pa(pud) | TABLE;
	pud[0] = __pa(pmd) | TABLE;
	pmd[USER_BASE >> 21] = __pa(mm->user_ptes) | TABLE;
}

void arch_free_mm_tables(struct mm *mm)
{
	pte_t *pud = __va(mm->pgd[0] & PTE_ADDRESS);

	free_pages(__va(pud[0] & PTE_ADDRESS), 0);
	free_pages(pud, 0);
	free_pages(mm->user_ptes, 0);
	free_pages(mm->pgd, 0);
}
