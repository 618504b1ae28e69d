/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/moved.h: for passes that move code (fragment_move), and for who adds code with names (code_add).
 * Included by mvld/pass.h.
 */
#ifndef MVLD_PASS_MOVED_H
#define MVLD_PASS_MOVED_H

/* In what pages moved code lies: 2 MiB each where the code fills them, and they are there; others are
 * small. */
enum mvld_pages {
    MVLD_PAGES_SMALL,
    MVLD_PAGES_THP,     /* put together by the kernel (transparent huge pages) */
    MVLD_PAGES_HUGETLB, /* of the machine's pool; what that lacks, as THP */
    MVLD_PAGES_QUICK,   /* what is there soonest: in the process the kernel's, where its setting
                         * has them and code fills half of one; in a snapshot small */
    MVLD_PAGES_POOL,    /* of the machine's pool; what that lacks, small */
    MVLD_PAGES_HOT      /* as THP, but nothing is paid for huge pages behind the last MVLD_MOVE_HOT */
};

/* Who gets the names of moved or added code, or-ed. */
#define MVLD_NAMES_DEBUGGERS 1u /* GDB and LLDB, by the JIT interface of GDB */
#define MVLD_NAMES_PERF 2u      /* perf, by /tmp/perf-PID.map */

#define MVLD_MOVE_HOT 1u /* it begins where it lies best in the lines of the caches */

#endif
