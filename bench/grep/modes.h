/* SPDX-License-Identifier: MIT
 *
 * modes.h: the multi-byte mode of grep's matcher as multiverse switches.  Every
 * file of the multiversed grep is compiled with -include of this one; edits.py
 * says what else changes.
 *
 * What the locale and the pattern decide once, the matcher asks at every
 * character or every match:
 *
 *   mode_multibyte, mode_utf8   the locale's encoding, after setlocale
 *   mode_dfa                    what the compiled pattern needs, after dfacomp
 *
 * The attributes stand on declarations here, so that grep's own definitions and
 * calls stay as they are.
 */
#ifndef MODES_H
#define MODES_H

#include <stdbool.h>
#include <stddef.h>

#define MODE __attribute__((multiverse))

enum dfa_mode { DFA_SINGLE_BYTE, DFA_MULTIBYTE, DFA_UNSUPPORTED };

extern MODE bool mode_multibyte, mode_utf8;
extern MODE enum dfa_mode mode_dfa;

struct dfa;
MODE char *dfaexec(struct dfa *, char const *, char *, bool, ptrdiff_t *, bool *);
char *dfaexec_sb(struct dfa *, char const *, char *, bool, ptrdiff_t *, bool *);
MODE ptrdiff_t EGexecute(void *, char const *, ptrdiff_t, ptrdiff_t *, char const *);
MODE ptrdiff_t Fexecute(void *, char const *, ptrdiff_t, ptrdiff_t *, char const *);
MODE ptrdiff_t mb_goback(char const **, ptrdiff_t *, char const *, char const *);
MODE ptrdiff_t wordchar_prev(char const *, char const *, char const *);

/* Commits everything, if this process has a multiverse run time. */
void mode_commit(void);
/* Sets mode_dfa; after the first commit, binds its functions anew. */
void mode_set_dfa(enum dfa_mode);

#endif
