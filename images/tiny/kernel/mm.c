/* Memory: an allocator of one and two pages, demand paging, copies for fork. */
#include "lock.h"
#include "tiny.h"

extern char _end[], __user_text_image[], __user_data_image[], __end_rodata[];

struct free_block {
	struct free_block *next;
};

static struct spinlock pages_lock;
static struct free_block *free_list[2]; /* of 1 page, of 2 pages */
static char *untouched;
u32 demand_faults;

__init void mm_init(void)
{
	untouched = (char *)(((unsigned long)_end + 2 * PAGE_SIZE - 1) & -(2 * PAGE_SIZE));
}

void *alloc_pages(int order)
{
	unsigned long flags = spin_lock_irqsave(&pages_lock);
	void *block = free_list[order];

	if (block) {
		free_list[order] = free_list[order]->next;
	} else {
		block = untouched;
		untouched += PAGE_SIZE << 1; /* pairs stay aligned */
		if (order == 0) {
			struct free_block *other = (void *)((char *)block + PAGE_SIZE);
			other->next = free_list[0];
			free_list[0] = other;
		}
	}
	spin_unlock_irqrestore(&pages_lock, flags);
	return block;
}

void free_pages(void *address, int order)
{
	unsigned long flags = spin_lock_irqsave(&pages_lock);
	struct free_block *block = address;

	block->next = free_list[order];
	free_list[order] = block;
	spin_unlock_irqrestore(&pages_lock, flags);
}

static inline pte_t *pte_of(struct mm *mm, unsigned long address) { return &mm->user_ptes[(address - USER_BASE) / PAGE_SIZE]; }

static noinline void map_page(struct mm *mm, unsigned long address, void *page, unsigned long rights)
{
	*pte_of(mm, address) = user_pte(__pa(page), rights);
	flush_page(address);
}

/* A program's memory: text shared with the image, a private copy of the data, the rest on demand. */
struct mm *mm_create(void)
{
	struct mm *mm = alloc_pages(0);
	unsigned long address = USER_BASE;

	arch_mm_tables(mm);
	for (char *page = __user_text_image; page < __user_data_image; page += PAGE_SIZE, address += PAGE_SIZE)
		map_page(mm, address, page, 0);
	address = USER_DATA;
	for (char *page = __user_data_image; page < __end_rodata; page += PAGE_SIZE, address += PAGE_SIZE) {
		void *copy = alloc_pages(0);
		copy_page(copy, page);
		map_page(mm, address, copy, PAGE_WRITE | PAGE_NX);
	}
	return mm;
}

struct mm *mm_copy(struct mm *from)
{
	struct mm *mm = mm_create();

	for (unsigned long address = USER_DATA; address < USER_END; address += PAGE_SIZE) {
		pte_t old = *pte_of(from, address), *mine = pte_of(mm, address);
		if (!(old & PAGE_PRESENT))
			continue;
		if (!(*mine & PAGE_PRESENT))
			map_page(mm, address, alloc_pages(0), PAGE_WRITE | PAGE_NX);
		copy_page(pte_page(*mine), pte_page(old));
	}
	return mm;
}

void mm_destroy(struct mm *mm)
{
	for (unsigned long address = USER_DATA; address < USER_END; address += PAGE_SIZE) {
		pte_t pte = *pte_of(mm, address);
		if (pte & PAGE_PRESENT)
			free_pages(pte_page(pte), 0);
	}
	arch_free_mm_tables(mm);
	free_pages(mm, 0);
}

/* Returns 1 if the access may be retried. */
int handle_mm_fault(struct mm *mm, unsigned long address)
{
	int heap = address >= USER_HEAP && address < USER_HEAP_END;
	int stack = address >= USER_STACK && address < USER_END;
	void *page;

	if (!heap && !stack)
		return 0;
	if (*pte_of(mm, address) & PAGE_PRESENT)
		return 0;
	page = alloc_pages(0);
	clear_page(page);
	map_page(mm, address, page, PAGE_WRITE | PAGE_NX);
	__sync_fetch_and_add(&demand_faults, 1);
	return 1;
}
