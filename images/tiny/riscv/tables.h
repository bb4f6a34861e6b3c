/* RISC-V page tables: a program's root table holds copies of the kernel's entries. */

extern pte_t swapper_pg_dir[], kernel_pages[];
#define kernel_ptes kernel_pages

#if __riscv_xlen == 64
#define ROOT_SHIFT 30
#define ROOT_ENTRIES 512
#else
#define ROOT_SHIFT 22
#define ROOT_ENTRIES 1024
#endif
/* The root entries from the one in front of the kernel's are copied. */
#define FIRST_KERNEL_ENTRY ((KERNEL_BASE >> ROOT_SHIFT) % ROOT_ENTRIES - 1)

_Static_assert(__builtin_offsetof(struct task, stack) == TASK_STACK, "TASK_STACK");

unsigned long kernel_pgd(void) { return __pa(swapper_pg_dir); }

static inline void forget_identity_map(void) { swapper_pg_dir[RAM_START >> ROOT_SHIFT] = 0; }

/* An entry for the next level. */
static inline pte_t table(pte_t *table) { return __pa(table) >> 12 << 10 | PTE_VALID; }

void arch_mm_tables(struct mm *mm)
{
	mm->pgd = new_table();
	mm->user_ptes = new_table();
	for (unsigned i = FIRST_KERNEL_ENTRY; i < ROOT_ENTRIES; i++)
		mm->pgd[i] = swapper_pg_dir[i];
#if __riscv_xlen == 64
	pte_t *middle = new_table();
	mm->pgd[0] = table(middle);
	middle[USER_BASE >> 21] = table(mm->user_ptes);
#else
	mm->pgd[USER_BASE >> ROOT_SHIFT] = table(mm->user_ptes);
#endif
}

void arch_free_mm_tables(struct mm *mm)
{
#if __riscv_xlen == 64
	free_pages(pte_page(mm->pgd[0]), 0);
#endif
	free_pages(mm->user_ptes, 0);
	free_pages(mm->pgd, 0);
}
