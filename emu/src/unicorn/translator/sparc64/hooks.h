/*
 * The hooks of 64-bit SPARC (docs/unicorn.md, "SPARC"). Part of loop.c. defaults.h says what each hook is for.
 */
#include "own.h"
#include "refused.h"

/* Stands in for `helper_done` of win_helper.c, 2.1.5, which at trap level 0 decrements the level below 0. */
static void done(CPUSPARCState *env)
{
    if (env->tl == 0) {
        cpu_raise_exception_ra(env, TT_ILL_INSN, GETPC());
    }
    HELPER(done)(env);
}

/* Stands in for `helper_retry` of win_helper.c, 2.1.5, which at trap level 0 decrements the level below 0. */
static void retry(CPUSPARCState *env)
{
    if (env->tl == 0) {
        cpu_raise_exception_ra(env, TT_ILL_INSN, GETPC());
    }
    HELPER(retry)(env);
}

/* Stands in for `helper_wrcwp` of win_helper.c, 2.1.5. It takes the number as signed, and a negative one
   selects a window that does not exist. A CPU uses only the lowest bits. */
static void write_window(CPUSPARCState *env, target_ulong number)
{
    HELPER(wrcwp)(env, number % env->nwindows);
}

static const struct instead target_instead[] = {
    { HELPER(lookup_tb_ptr), look_up, false },
    { HELPER(done), done, false },
    { HELPER(retry), retry, false },
    { HELPER(wrcwp), write_window, false },
    { NULL, NULL, false },
};
#define target_instead target_instead

static void target_after_block(TCGContext *s, struct trapline_machine *machine, const TranslationBlock *tb)
{
    stay(s);
}
#define target_after_block target_after_block
