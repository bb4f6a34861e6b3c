/* Page tables: access rights of kernel pages. Levels above a program's page table are in each arch.h. */
#include "board.h"
#include "tiny.h"

extern char _stext[], _etext[], __start_rodata[], __end_rodata[], __init_begin[], __init_end[], _einittext[], __init_data_begin[];

static pte_t *new_table(void)
{
	pte_t *table = alloc_pages(0);
	clear_page(table);
	return table;
}

#include "tables.h"

static noinline void set_kernel_rights(const char *from, const char *to, unsigned long rights)
{
	for (unsigned long address = (unsigned long)from; address < (unsigned long)to; address += PAGE_SIZE) {
		kernel_ptes[(address - KERNEL_BASE) / PAGE_SIZE] = kernel_pte(__pa(address), rights);
		flush_page(address);
	}
}

/* Text: read and execute; constants: read; data: no execute. Removes the identity map of the boot. */
void mark_rodata_ro(void)
{
#ifdef LOW_TEXT_END
	set_kernel_rights((char *)KERNEL_BASE, (char *)KERNEL_BASE + LOW_TEXT_END, 0);
	set_kernel_rights((char *)KERNEL_BASE + LOW_TEXT_END, _stext, PAGE_WRITE | PAGE_NX);
#else
	set_kernel_rights((char *)KERNEL_BASE, _stext, PAGE_WRITE | PAGE_NX);
#endif
	set_kernel_rights(_stext, _etext, 0);
	set_kernel_rights(__start_rodata, __end_rodata, PAGE_NX);
	set_kernel_rights(__end_rodata, __init_begin, PAGE_WRITE | PAGE_NX);
	set_kernel_rights(__init_begin, _einittext, 0);
	set_kernel_rights(__init_data_begin, __init_end, PAGE_WRITE | PAGE_NX);
	set_kernel_rights(__init_end, (char *)KERNEL_BASE + 0x200000, PAGE_WRITE | PAGE_NX);
	forget_identity_map();
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
