/* Programs' page tables. The CPU uses one hashed table, which is filled from them on misses. The
   kernel's own text and data do not use it. */
#include "board.h"
#include "lock.h"
#include "tiny.h"

void do_trap(struct pt_regs *regs, unsigned long why, unsigned long address);
void do_fault_or_trap(struct pt_regs *regs, unsigned long why, unsigned long address);

extern char __init_begin[], __init_end[];

#define GROUPS (HASH_BYTES / 64)
#define GROUP_ENTRIES 8
struct hashed {
	u32 name, page;
};
extern struct hashed hash_table[GROUPS][GROUP_ENTRIES];

/* First word: valid bit. */
#define HASHED 0x80000000

static pte_t no_program[1024] __attribute__((aligned(4096))) = { [PTE_SPACE] = NO_SPACE };
static struct spinlock hash_lock;
/* The entry to replace next when a group is full. */
static u32 next_to_go;
static u32 last_space = NO_SPACE;

unsigned long kernel_pgd(void) { return __pa(no_program); }

/* Numbers of address spaces are never reused. */
void arch_mm_tables(struct mm *mm)
{
	mm->user_ptes = alloc_pages(0);
	clear_page(mm->user_ptes);
	mm->user_ptes[PTE_SPACE] = __sync_add_and_fetch(&last_space, 1);
	mm->pgd = mm->user_ptes;
}

void arch_free_mm_tables(struct mm *mm) { free_pages(mm->user_ptes, 0); }

static inline u32 space_of(unsigned long address)
{
	u32 segment;
	asm volatile("mfsrin %0, %1" : "=r"(segment) : "r"(address));
	return segment & 0xffffff;
}

static inline struct hashed *group_of(unsigned long address, u32 space)
{
	return hash_table[(space ^ (address >> 12 & 0xffff)) % GROUPS];
}

static inline u32 name_of(unsigned long address, u32 space) { return HASHED | space << 7 | (address >> 22 & 0x3f); }

static inline void forget_translation(unsigned long address)
{
	asm volatile("sync\n\ttlbie %0\n\tsync\n\ttlbsync\n\tsync\n\tisync" ::"r"(address) : "memory");
}

noinline void flush_page(unsigned long address)
{
	unsigned long flags = spin_lock_irqsave(&hash_lock);
	u32 space = space_of(address), name = name_of(address, space);
	volatile struct hashed *group = group_of(address, space);

	for (u32 n = 0; n < GROUP_ENTRIES; n++)
		if (group[n].name == name)
			group[n].name = 0;
	forget_translation(address);
	spin_unlock_irqrestore(&hash_lock, flags);
}

static noinline void enter_page(unsigned long address, pte_t pte)
{
	unsigned long flags = spin_lock_irqsave(&hash_lock);
	u32 space = space_of(address), n;
	volatile struct hashed *group = group_of(address, space);

	for (n = 0; n < GROUP_ENTRIES && group[n].name; n++)
		;
	if (n == GROUP_ENTRIES)
		n = next_to_go++ % GROUP_ENTRIES;
	group[n].name = 0;
	forget_translation(address);
	group[n].page = pte & ~PTE_THERE;
	asm volatile("eieio" ::: "memory");
	group[n].name = name_of(address, space);
	asm volatile("sync" ::: "memory");
	spin_unlock_irqrestore(&hash_lock, flags);
}

/* The page-table entry in our own tables: of a page of constants, or of the current program. 0 if there is none. */
static inline pte_t page_of(unsigned long address)
{
	struct mm *mm = current->mm;

	if (address >> 28 == (KERNEL_BASE + CONSTANTS_OFFSET) >> 28 && PHYSICAL(address) < 0x200000)
		return (PHYSICAL(address) & -PAGE_SIZE) | PTE_THERE | PTE_USED | PTE_READ;
	if (mm && address >= USER_BASE && address < USER_END)
		return mm->user_ptes[(address - USER_BASE) / PAGE_SIZE];
	return 0;
}

/* Returns whether the page was only missing from the hashed table. A forbidden access is a fault. */
static inline int was_missed(struct pt_regs *regs, unsigned long why)
{
	u32 reason = regs->flags;

	if (why == 0x300)
		asm volatile("mfdsisr %0" : "=r"(reason));
	return (why == 0x300 || why == 0x400) && reason & 0x40000000;
}

void do_fault_or_trap(struct pt_regs *regs, unsigned long why, unsigned long address)
{
	if (was_missed(regs, why)) {
		pte_t pte = page_of(address);
		if (pte & PTE_THERE) {
			enter_page(address, pte);
			return;
		}
	}
	do_trap(regs, why, address);
}

/* Does nothing: constants are mapped read-only from the start, and a BAT maps text, for which no rights can be set. */
void mark_rodata_ro(void) {}

/* Frees the init section. Overwrites its text, so that a late jump there does not find old code. */
void free_initmem(void)
{
	memset(__init_begin, 0xcc, __init_end - __init_begin);
	for (char *page = __init_begin; page < __init_end; page += PAGE_SIZE)
		free_pages(page, 0);
}
