/* 32-bit ARM page tables: one first-level table of 16 KiB for program and kernel, from a pool of its own. */
#include "lock.h"

extern pte_t swapper_pg_dir[], level2_kernel_pgt[];
#define kernel_ptes level2_kernel_pgt

#define PGD_ENTRIES 4096
#define FIRST_KERNEL_ENTRY 0xbf0 /* modules are below the kernel */
#define TABLE 1UL

static pte_t pgds[12][PGD_ENTRIES] __attribute__((aligned(16384)));
static u32 pgds_in_use;
static struct spinlock pgds_lock;

unsigned long kernel_pgd(void) { return __pa(swapper_pg_dir); }

static inline void forget_identity_map(void) { swapper_pg_dir[RAM_START >> 20] = swapper_pg_dir[(RAM_START >> 20) + 1] = 0; }

static noinline pte_t *new_pgd(void)
{
	unsigned long flags = spin_lock_irqsave(&pgds_lock);
	unsigned number = 0;

	while (pgds_in_use >> number & 1)
		number++;
	if (number >= ARRAY_SIZE(pgds))
		panic("too many programs");
	pgds_in_use |= 1u << number;
	spin_unlock_irqrestore(&pgds_lock, flags);
	for (int i = FIRST_KERNEL_ENTRY; i < PGD_ENTRIES; i++)
		pgds[number][i] = swapper_pg_dir[i];
	return pgds[number];
}

/* A page holds two adjacent second-level tables. */
void arch_mm_tables(struct mm *mm)
{
	mm->pgd = new_pgd();
	mm->user_ptes = new_table();
	mm->pgd[USER_BASE >> 20] = __pa(mm->user_ptes) | TABLE;
	mm->pgd[(USER_BASE >> 20) + 1] = (__pa(mm->user_ptes) + 1024) | TABLE;
}

void arch_free_mm_tables(struct mm *mm)
{
	unsigned long flags = spin_lock_irqsave(&pgds_lock);

	pgds_in_use &= ~(1u << (mm->pgd - pgds[0]) / PGD_ENTRIES);
	spin_unlock_irqrestore(&pgds_lock, flags);
	free_pages(mm->user_ptes, 0);
}
