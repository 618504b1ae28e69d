/* SPDX-License-Identifier: MIT
 *
 * The switches of modes.h, and the commit.  grep is not linked with
 * libmultiverse: under a plain ld.so, or when mvld has no multiverse pass for
 * it, dlsym finds nothing and grep tests its modes at run time.
 */
#include "modes.h"

#include <dlfcn.h>
#include <multiverse.h>
#include <stdio.h>
#include <stdlib.h>

MODE bool mode_multibyte, mode_utf8;
MODE enum dfa_mode mode_dfa;

static bool committed;

void mode_commit(void)
{
    __typeof__(&multiverse_commit) commit;
    *(void **)&commit = dlsym(RTLD_DEFAULT, "multiverse_commit");
    int n = commit ? commit() : -2;
    committed = n >= 0;
    if (getenv("GREP_SHOW_MODES"))
        fprintf(stderr, "modes: multibyte=%d utf8=%d dfa=%d committed=%d\n", mode_multibyte,
                mode_utf8, mode_dfa, n);
}

void mode_set_dfa(enum dfa_mode mode)
{
    if (mode == mode_dfa)
        return;
    mode_dfa = mode;
    if (!committed)
        return;
    __typeof__(&multiverse_commit_refs) commit_refs;
    *(void **)&commit_refs = dlsym(RTLD_DEFAULT, "multiverse_commit_refs");
    if (commit_refs)
        commit_refs(&mode_dfa);
}
