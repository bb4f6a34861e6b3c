/* 64-bit PowerPC page tables: a radix tree for the kernel, and one for each program, found by its address space number. */
#include "lock.h"

#define kernel_ptes level4_kernel_pgt

/* The process table: two words per address space, its tree and 0. head.S sets the kernel's. */
extern pte_t process_table[];

enum { PROGRAMS = 10 };
pte_t program_tables[PROGRAMS][TABLE_ENTRIES] __attribute__((aligned(sizeof(pte_t[TABLE_ENTRIES]))));
static u32 tables_in_use;
static struct spinlock tables_lock;

/* Not used by programs. */
unsigned long kernel_pgd(void) { return 0; }

static inline void forget_identity_map(void) {}

static noinline pte_t *new_program_table(void)
{
	unsigned long flags = spin_lock_irqsave(&tables_lock);
	unsigned number = 0;

	while (tables_in_use >> number & 1)
		number++;
	if (number >= PROGRAMS)
		panic("too many programs");
	tables_in_use |= 1u << number;
	spin_unlock_irqrestore(&tables_lock, flags);
	return program_tables[number];
}

static inline pte_t directory(pte_t *table) { return table_word(__pa(table) | DIRECTORY); }
static inline pte_t *next_table(pte_t entry) { return pte_page(entry); }

void arch_mm_tables(struct mm *mm)
{
	pte_t *pud = new_table(), *pmd = new_table();

	mm->pgd = new_program_table();
	mm->user_ptes = new_table();
	mm->pgd[0] = directory(pud);
	pud[0] = directory(pmd);
	pmd[USER_BASE >> 21] = directory(mm->user_ptes);
	process_table[2 * space_of(__pa(mm->pgd))] = table_word(__pa(mm->pgd) | TREE_OF_52_BITS);
}

/* Also flushes the address space, because its number will be reused. */
void arch_free_mm_tables(struct mm *mm)
{
	pte_t *pud = next_table(mm->pgd[0]);
	unsigned long space = space_of(__pa(mm->pgd)), flags;

	process_table[2 * space] = 0;
	asm volatile("ptesync\n\ttlbie %0, %1, 2, 1, 1\n\teieio\n\ttlbsync\n\tptesync" ::"r"(0x400), "r"(space << 32) : "memory");
	free_pages(next_table(pud[0]), 0);
	free_pages(pud, 0);
	free_pages(mm->user_ptes, 0);
	flags = spin_lock_irqsave(&tables_lock);
	tables_in_use &= ~(1u << (space - FIRST_SPACE));
	spin_unlock_irqrestore(&tables_lock, flags);
}
