/*
 * z/Architecture. Part of access.c. The operands of MVC and its kin may lie in two pages, for each of which a helper asks
 * on its own. They have at most 4,096 bytes.
 */
#define TARGET_LARGEST_OPERAND 4096
