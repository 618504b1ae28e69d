/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/crash.h: if a fault ends the process, reports where.
 */
#ifndef RIMF_CRASH_H
#define RIMF_CRASH_H

#include <stdint.h>

struct rimf_sys;

#define RIMF_CRASH_SIGNALS 4u

struct rimf_crash {
    const struct rimf_sys *sys;
    /* Called in the signal handler, with the address of the faulting instruction.  Must return. */
    void (*tell)(void *cookie, int signal, uintptr_t at);
    void *cookie;
    uint32_t watched; /* one bit for each signal; private */
};

/* Until rimf_crash_leave, a SIGSEGV, SIGBUS, SIGILL or SIGFPE that an instruction of this process raises is
 * reported.  Then it ends the process as it would have: same signal, same registers.  If the program has an
 * action for a signal, that stays in force; and nothing is watched while there are other threads, because
 * actions belong to all of them.  The caller sets `sys`, `tell` and `cookie`.  Not nested, not thread-safe. */
void rimf_crash_watch(struct rimf_crash *);
void rimf_crash_leave(struct rimf_crash *);

#endif
