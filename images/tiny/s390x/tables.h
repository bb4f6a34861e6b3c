/* z/Architecture page tables of a program: a region table with the kernel's half, a segment table, and two adjacent page tables. */

/* Set by head.S: all of RAM in small pages. */
extern pte_t swapper_pg_dir[], kernel_ptes[];

unsigned long kernel_pgd(void) { return __pa(swapper_pg_dir); }

static inline void forget_identity_map(void) {}

static pte_t *fill(pte_t *table, pte_t entry)
{
	for (int i = 0; i < TABLE_ENTRIES; i++)
		table[i] = entry;
	return table;
}

void arch_mm_tables(struct mm *mm)
{
	pte_t *segments = fill(new_table(), ENTRY_INVALID);

	mm->pgd = fill(new_table(), ENTRY_INVALID | REGION);
	mm->user_ptes = fill(new_table(), PTE_INVALID);
	segments[USER_BASE >> 20] = __pa(mm->user_ptes);
	segments[(USER_BASE >> 20) + 1] = __pa(mm->user_ptes) + PAGE_SIZE / 2;
	mm->pgd[0] = __pa(segments) | REGION;
	mm->pgd[1] = swapper_pg_dir[1];
}

void arch_free_mm_tables(struct mm *mm)
{
	free_pages(__va(mm->pgd[0] & PTE_ADDRESS), 0);
	free_pages(mm->user_ptes, 0);
	free_pages(mm->pgd, 0);
}
