/*
 * AArch64. Part of access.c. The bytes that DC ZVA zeroes. Its helper asks for the host memory of their first byte, and
 * stores bytes if it gets none.
 */
#define TARGET_ZEROED_BLOCK(env) (4u << env_archcpu(env)->dcz_blocksize)

#include "../arm/access.h"
