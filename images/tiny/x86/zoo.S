/* A collection of less common instructions, so that tests can probe each one. The result depends on defined flags and registers only, and is the
 * same in 32 and 64 bits. */
#include "arch.h"

#ifdef __x86_64__
#define R(name) %r##name
#define AT(symbol) symbol(%rip)
#else
#define R(name) %e##name
#define AT(symbol) symbol
#endif

	.text
	.globl instruction_zoo
	.type instruction_zoo, @function
instruction_zoo: /* the first argument in, 32 bits out */
#ifdef __x86_64__
	movl %edi, %eax
#endif
	push R(bx)
	push R(si)
	push R(di)
	enter $64, $0

	/* arithmetic, shifts, bits */
	imull $0x01000193, %eax, %ebx
	orl $0x101, %ebx
	roll $5, %eax
	rorl $3, %ebx
	movb $9, %cl
	sarl %cl, %eax
	shldl $7, %ebx, %eax
	shrdl %cl, %eax, %ebx
	bswap %ebx
	mull %ebx
	xorl %edx, %eax
	xorl %edx, %edx
	movl $12345, %ecx
	divl %ecx
	leal 7(%eax,%edx,4), %eax
	cltd
	idivl AT(zoo_table)
	orl $0x100, %eax
	bsfl %eax, %ecx
	bsrl %eax, %esi
	addl %esi, %ecx
	btl $5, %ecx
	adcl $3, %eax
	btsl $17, %eax
	btrl $8, %eax
	btcl $2, %eax
	sbbl %ecx, %eax
	negl %eax
	cmpl %ecx, %eax
	cmovael %ecx, %edx
	setb %cl
	movzbl %cl, %ecx
	movsbl %al, %esi
	leal (%esi,%ecx,8), %esi
	xchgl %esi, %eax
	cwtl
	addl %esi, %eax

	/* memory, locked and not */
	movl %eax, -8(R(bp))
	movl %edx, -12(R(bp))
	lock addl $77, -8(R(bp))
	movl -8(R(bp)), %eax
	lock cmpxchgl %edx, -8(R(bp))
	jne 9f
	lock xaddl %eax, -12(R(bp))
	xchgl %eax, -8(R(bp))
	push -8(R(bp))
	pop -32(R(bp))
	addl -32(R(bp)), %eax
	incl -12(R(bp))
	addl -12(R(bp)), %eax

	/* strings and a table, forward and backward */
	andl $15, %eax
	lea AT(zoo_table), R(bx)
	xlatb
	movzbl %al, %edx
	mov R(bx), R(si)
	lea -64(R(bp)), R(di)
	movl $4, %ecx
	rep movsl
	lodsl
	stosl
	std
	sub $4, R(di)
	movsw
	cld
	addl %eax, %edx
	lea -64(R(bp)), R(di)
	movl $16, %ecx
	movb $0x5c, %al
	repne scasb
	setz %al
	movzbl %al, %eax
	leal (%edx,%ecx,2), %edx
	addl %eax, %edx
	lea -64(R(bp)), R(di)
	mov R(bx), R(si)
	movl $12, %ecx
	repe cmpsb
	addl %ecx, %edx

	/* loops and branches on a count, flags through the stack, calls through memory and register */
	movl $5, %ecx
1:	leal 1(%edx,%edx,2), %edx
	loop 1b
#ifdef __x86_64__
	jrcxz 2f
#else
	jecxz 2f
#endif
	notl %edx
2:	movl $3, %ecx
	testl %edx, %edx
3:	loopne 3b
	addl %edx, %edx
	pushf
	popf
	rcrl $1, %edx
	push $0x1234
	call *AT(zoo_pointer)
	lea zoo_helper, R(si)
	push $-3
	call *R(si)
	push $99
	call zoo_helper
9:	movl %edx, %eax
	leave
	pop R(di)
	pop R(si)
	pop R(bx)
	ret
	.size instruction_zoo, . - instruction_zoo

	.globl zoo_helper
	.type zoo_helper, @function
zoo_helper: /* takes its argument off the stack itself */
	xorl WORD(R(sp)), %edx
	roll $1, %edx
	ret $WORD
	.size zoo_helper, . - zoo_helper

	.section .rodata
	.balign 16
zoo_table:
	.long 0x00000dab, 0x5c9e1f02, 0x77aa3312, 0x0badcafe, 0x13572468, 0x2468ace0
	.balign WORD
zoo_pointer:
#ifdef __x86_64__
	.quad zoo_helper
#else
	.long zoo_helper
#endif
