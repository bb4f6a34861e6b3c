/* The linker script, run through the preprocessor. Each p_paddr is the virtual address minus LOAD_OFFSET. */
#define __ASSEMBLER__
#include "arch.h"

#ifndef PHYSICAL
#define PHYSICAL(address) ((address) - LOAD_OFFSET)
#endif
/* Offset at which constants are mapped, from all other sections. */
#ifndef CONSTANTS_OFFSET
#define CONSTANTS_OFFSET 0
#endif
/* Offset of the text from the start of RAM. */
#ifndef TEXT_OFFSET
#define TEXT_OFFSET 0x100000
#endif
/* Alignment of sections with different access rights. */
#ifndef LINK_PAGE
#define LINK_PAGE 4096
#endif

OUTPUT_FORMAT(ELF_FORMAT)
ENTRY(phys_startup)
PHDRS
{
#ifdef VECTORS
	vectors PT_LOAD FLAGS(5);
#endif
	text PT_LOAD FLAGS(5);
	rodata PT_LOAD FLAGS(4);
	user_text PT_LOAD FLAGS(5);
	user_data PT_LOAD FLAGS(6);
	data PT_LOAD FLAGS(6);
	init_text PT_LOAD FLAGS(5);
	init_data PT_LOAD FLAGS(6);
#ifdef VECTORS
	tables PT_LOAD FLAGS(6); /* a segment of their own, because their alignment is larger than a page */
#endif
}
SECTIONS
{
#ifdef __hppa__
	$global$ = 0; /* %dp, the base of data, is 0 */
#endif
#ifdef VECTORS
	. = KERNEL_BASE + VECTORS;
	.vectors : AT(PHYSICAL(ADDR(.vectors))) {
		*(.vectors)
	} :vectors
#endif
	. = KERNEL_BASE + TEXT_OFFSET;
	_stext = .;
	phys_startup = _stext - LOAD_OFFSET; /* head.S comes first */
	.text : AT(PHYSICAL(ADDR(.text))) {
		__entry_text_start = .;
		*(.head.text)
		. = ALIGN(16);
		*(.entry.text)
		__entry_text_end = .;
#ifdef __riscv
		/* RISC-V's kernels call it so. */
		__irqentry_text_start = __entry_text_start;
		__irqentry_text_end = __entry_text_end;
#endif
		. = ALIGN(16);
		__noinstr_text_start = .;
		*(.noinstr.text)
		__noinstr_text_end = .;
		. = ALIGN(16);
		__kprobes_text_start = .;
		*(.kprobes.text)
		__kprobes_text_end = .;
		. = ALIGN(16);
		*(EXCLUDE_FILE(*user.o) .text EXCLUDE_FILE(*user.o) .text.*)
	} :text
	_etext = .;

	. = ALIGN(LINK_PAGE) + CONSTANTS_OFFSET;
	__start_rodata = .;
	.rodata : AT(PHYSICAL(ADDR(.rodata))) {
		*(EXCLUDE_FILE(*user.o) .rodata EXCLUDE_FILE(*user.o) .rodata.*)
		. = ALIGN(8);
		__start___ex_table = .;
		*(__ex_table)
		__stop___ex_table = .;
		. = ALIGN(8);
		__start___bug_table = .;
		*(__bug_table)
		__stop___bug_table = .;
		. = ALIGN(8);
		__start_kprobe_blacklist = .;
		*(_kprobe_blacklist)
		__stop_kprobe_blacklist = .;
	} :rodata

	/* The user programs: linked at user addresses, loaded behind the kernel's constants. */
	. = ALIGN(LINK_PAGE);
	__user_text_image = .;
	.user.text 0x400000 : AT(PHYSICAL(__user_text_image)) {
		*user.o(.text .text.* .rodata .rodata.*)
		. = ALIGN(LINK_PAGE);
	} :user_text
	__user_data_image = __user_text_image + SIZEOF(.user.text);
	.user.data 0x480000 : AT(PHYSICAL(__user_data_image)) {
		*user.o(.data .data.* .bss .bss.*)
		. = ALIGN(LINK_PAGE);
	} :user_data
	. = __user_data_image + SIZEOF(.user.data);
	__end_rodata = .;
	. = . - CONSTANTS_OFFSET;
#ifdef DATA_ALIGN
	. = ALIGN(DATA_ALIGN);
#endif

	.data : AT(PHYSICAL(ADDR(.data))) {
		*(.data..page_tables)
		*(.data .data.*)
	} :data
#ifdef __powerpc64__
	.opd : AT(PHYSICAL(ADDR(.opd))) {
		*(.opd)
	} :data
	.got : AT(PHYSICAL(ADDR(.got))) {
		*(.got .toc)
	} :data
#endif

	. = ALIGN(LINK_PAGE);
	__init_begin = .;
	_sinittext = .;
	.init.text : AT(PHYSICAL(ADDR(.init.text))) {
		*(.init.text)
	} :init_text
	_einittext = .;
	. = ALIGN(LINK_PAGE);
	__init_data_begin = .;
	.init.data : AT(PHYSICAL(ADDR(.init.data))) {
		*(.init.data)
		. = ALIGN(LINK_PAGE);
	} :init_data
	__init_end = .;

	.bss : AT(PHYSICAL(ADDR(.bss))) {
		*(.bss .bss.* COMMON)
#ifdef VECTORS
	} :tables
#else
	} :init_data
#endif
	. = ALIGN(LINK_PAGE);
	_end = .;

	/DISCARD/ : { *(.comment) *(.note*) *(.eh_frame*) *(.debug*) *(.mdebug*) *(.pdr) *(.gnu.attributes) *(.reginfo) *(.MIPS.*) *(.ARM.*) *(.riscv.attributes) *(.PARISC.*) *(.IA_64.*) }
}
