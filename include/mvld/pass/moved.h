/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/moved.h: for passes that move code (fragment_move) or add code with names (code_add).  Included by
 * mvld/pass.h.
 */
#ifndef MVLD_PASS_MOVED_H
#define MVLD_PASS_MOVED_H

/* Moved code (rimf/moved/moved.h): for the thread that loads, inside run, of passes with MVLD_PASS_MOVES.
 *
 * region_open: prepares the region, at the addresses that libconcat.so.1 reserves.  `pages` counts in the
 * first call of a process, except in one that started from a snapshot, which has its own.  `names`
 * (MVLD_NAMES_*) holds for the code that moves in this call of the pass.  Returns negative errno with a
 * static sentence in *why if no code can move.
 *
 * fragments: stores up to `room` of the smallest fragments that the code of `object` can be cut into, by
 * address, and returns their number.  0, with a static sentence in *why: it cannot be cut.
 *
 * fragment_move: declares that a fragment moves, or several neighbours as one, or, with NULL, all movable
 * code of `object` as one block, `gap` bytes behind the fragment declared before.  All references follow.
 * If some fragments of an object are declared, its other fragments stay.  Made after the last pass,
 * all or none.  Returns negative errno with a sentence in *why, valid until the next call, if the fragment
 * stays; if another pass has moved it, the sentence names that pass. */

/* The pages of moved code.  Pages of 2 MiB are used where the code fills them and they are available; the rest
 * is in small pages. */
enum mvld_pages {
    MVLD_PAGES_SMALL,
    MVLD_PAGES_THP,     /* transparent huge pages of the kernel */
    MVLD_PAGES_QUICK,   /* the fastest to get: in the process transparent huge pages, if the kernel's setting
                         * allows them and code fills half of one; in a snapshot small pages */
    MVLD_PAGES_HOT      /* as THP, but small pages after the last MVLD_MOVE_HOT fragment */
};

/* Readers of the names of moved or added code, or-ed. */
#define MVLD_NAMES_DEBUGGERS 1u /* GDB and LLDB, by GDB's JIT interface */
#define MVLD_NAMES_PERF 2u      /* perf, by /tmp/perf-PID.map */

#define MVLD_MOVE_HOT 1u /* aligned for the instruction cache's lines */

#endif
