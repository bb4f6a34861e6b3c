/* Page tables: access rights of kernel pages, and the levels above a program's page table. */
#include "board.h"
#include "tiny.h"

extern pte_t level1_kernel_pgt[], level2_kernel_pgt[];
extern char _stext[], _etext[], __start_rodata[], __end_rodata[], __init_begin[], __init_end[], _einittext[], __init_data_begin[];

#ifdef __x86_64__
extern pte_t init_top_pgt[];
#define KERNEL_PGD init_top_pgt
#else
extern pte_t swapper_pg_dir[];
#define KERNEL_PGD swapper_pg_dir
#endif

unsigned long kernel_pgd(void) { return __pa(KERNEL_PGD); }

static noinline void set_kernel_rights(const char *from, const char *to, unsigned long rights)
{
	for (unsigned long address = (unsigned long)from; address < (unsigned long)to; address += PAGE_SIZE) {
		level1_kernel_pgt[__pa(address) / PAGE_SIZE] = __pa(address) | PAGE_COMMON | rights;
		flush_page(address);
	}
}

/* Text: read and execute; constants: read; data: no execute. Removes the identity map of the boot. */
void mark_rodata_ro(void)
{
	set_kernel_rights(__va(0), _stext, PAGE_WRITE | PAGE_NX);
	set_kernel_rights(_stext, _etext, 0);
	set_kernel_rights(__start_rodata, __end_rodata, PAGE_NX);
	set_kernel_rights(__end_rodata, __init_begin, PAGE_WRITE | PAGE_NX);
	set_kernel_rights(__init_begin, _einittext, 0);
	set_kernel_rights(__init_data_begin, __init_end, PAGE_WRITE | PAGE_NX);
	set_kernel_rights(__init_end, __va(0x200000), PAGE_WRITE | PAGE_NX);
	KERNEL_PGD[0] = 0;
	load_pgd(kernel_pgd());
}

/* Frees the init section. Overwrites its text, so that a late jump there does not find old code. */
void free_initmem(void)
{
	set_kernel_rights(__init_begin, __init_end, PAGE_WRITE | PAGE_NX);
	memset(__init_begin, 0xcc, __init_end - __init_begin);
	for (char *page = __init_begin; page < __init_end; page += PAGE_SIZE)
		free_pages(page, 0);
}

static pte_t *new_table(void)
{
	pte_t *table = alloc_pages(0);
	clear_page(table);
	return table;
}

void arch_mm_tables(struct mm *mm)
{
	mm->pgd = new_table();
	mm->user_ptes = new_table();
#ifdef __x86_64__
	pte_t *pud = new_table(), *pmd = new_table();
	mm->pgd[511] = init_top_pgt[511]; /* level3_kernel_pgt and all below it are shared */
	mm->pgd[0] = __pa(pud) | PAGE_COMMON | PAGE_WRITE | PAGE_USER;
	pud[0] = __pa(pmd) | PAGE_COMMON | PAGE_WRITE | PAGE_USER;
	pmd[USER_BASE >> 21] = __pa(mm->user_ptes) | PAGE_COMMON | PAGE_WRITE | PAGE_USER;
#else
	for (int i = 768; i < 1024; i++)
		mm->pgd[i] = swapper_pg_dir[i];
	mm->pgd[USER_BASE >> 22] = __pa(mm->user_ptes) | PAGE_COMMON | PAGE_WRITE | PAGE_USER;
#endif
}

void arch_free_mm_tables(struct mm *mm)
{
#ifdef __x86_64__
	pte_t *pud = __va(mm->pgd[0] & PTE_ADDRESS);
	free_pages(__va(pud[0] & PTE_ADDRESS), 0);
	free_pages(pud, 0);
#endif
	free_pages(mm->user_ptes, 0);
	free_pages(mm->pgd, 0);
}
