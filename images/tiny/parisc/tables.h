/* Page tables of programs, and rights of kernel pages, for the TLB miss handlers. Included by mmu.c. */

extern pte_t kernel_ptes[512], kernel_pgd_table[1024];

unsigned long kernel_pgd(void) { return __pa(kernel_pgd_table); }

void arch_mm_tables(struct mm *mm)
{
	mm->user_ptes = new_table();
	mm->pgd = mm->user_ptes;
}

void arch_free_mm_tables(struct mm *mm) { free_pages(mm->user_ptes, 0); }

static inline pte_t kernel_pte(unsigned long physical, unsigned long rights)
{
	unsigned long kind = RIGHTS(2, 0, 0);
	if (rights & PAGE_NX)
		kind = rights & PAGE_WRITE ? RIGHTS(1, 0, 0) : RIGHTS(0, 0, 0);
	return physical | PTE_PRESENT | PTE_DIRTY | kind << PTE_RIGHTS_SHIFT;
}

static inline void forget_identity_map(void) {}

struct atomic_lock atomic_lock = { 1 };

/* Called by the compiler's built-in functions of these names. */
u32 __sync_fetch_and_add_4(volatile void *at, u32 value);
u32 __sync_sub_and_fetch_4(volatile void *at, u32 value);

u32 __sync_fetch_and_add_4(volatile void *at, u32 value)
{
	volatile u32 *place = at;
	unsigned long flags = atomic_begin();
	u32 old = *place;
	*place = old + value;
	atomic_end(flags);
	return old;
}

u32 __sync_sub_and_fetch_4(volatile void *at, u32 value) { return __sync_fetch_and_add_4(at, -value) - value; }

/* Flushes this CPU only: a program runs on one CPU at a time, and gets a new space on another. */
void flush_page(unsigned long address)
{
	asm volatile("pdtlb %%r0(%0)\n\tpdtlb %%r0(%%sr3, %0)" ::"r"(address) : "memory");
}

/* Maps these pages of the kernel for good, in space 0: `diag` has that meaning on this CPU. */
static inline void set_block(const char *from, unsigned long end, unsigned long rights, int number)
{
	register unsigned long start asm("r26") = (unsigned long)from, physical asm("r25") = __pa(from);
	register unsigned long bytes asm("r24") = end - start + PAGE_SIZE - 1, allows asm("r23") = rights << 20 | 1 << 28;

	asm volatile("diag %4" ::"r"(start), "r"(physical), "r"(bytes), "r"(allows), "i"(number) : "memory");
}

/* Maps the kernel for good, with the rights that mark_rodata_ro has left. The init section is not mapped: it is freed. */
static inline void set_blocks(void)
{
	if (kernel_ptes[((unsigned long)_stext - KERNEL_BASE) / PAGE_SIZE] != kernel_pte(__pa(_stext), 0))
		return;
	set_block(_stext, (unsigned long)_etext, RIGHTS(2, 0, 0), 0);
	set_block(__start_rodata, (unsigned long)__end_rodata, RIGHTS(0, 0, 0), 1);
	set_block(__end_rodata, (unsigned long)__init_begin, RIGHTS(1, 0, 0), 2);
	set_block(__init_end, NOWHERE, RIGHTS(1, 0, 0), 3);
}

/* Gives the address space a number that was not used since the last flush. */
void load_pgd(unsigned long physical)
{
	struct percpu *area = this_cpu();

	if (physical == kernel_pgd())
		set_blocks();
	asm volatile("mtctl %0, %%cr25" ::"r"(physical));
	area->space = (area->space + 1) & 0x7fff;
	if (!area->space) {
		asm volatile("pdtlbe %%r0(%0)" ::"r"(physical) : "memory");
		area->space = 1;
	}
	asm volatile("mtsp %0, %%sr3" ::"r"(area->space) : "memory");
}
