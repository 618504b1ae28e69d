/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/crash.h: a process that a fault ends says where, before it ends.
 */
#ifndef RIMF_CRASH_H
#define RIMF_CRASH_H

#include <stdint.h>

struct rimf_sys;

#define RIMF_CRASH_SIGNALS 4u

struct rimf_crash {
    const struct rimf_sys *sys;
    /* Called in the signal handler, with the address of the instruction that faulted.  Returns. */
    void (*tell)(void *cookie, int signal, uintptr_t at);
    void *cookie;
    uint32_t watched; /* a bit for each signal; ours */
};

/* From here to rimf_crash_leave a SIGSEGV, SIGBUS, SIGILL or SIGFPE that an instruction of this process raises
 * is told.  Then it ends the process as it would have: same signal, same registers.  The program's own action
 * for a signal stays in force, and nothing is watched while there are other threads: actions belong to all of
 * them.  `sys`, `tell` and `cookie` are the caller's.  Not nested, not thread-safe. */
void rimf_crash_watch(struct rimf_crash *);
void rimf_crash_leave(struct rimf_crash *);

#endif
