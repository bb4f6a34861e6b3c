/*
 * MIPS, all four kinds of core. Part of loop.c; defaults.h says what each hook is for.
 */
#include "internal.h"
#include "own.h"
