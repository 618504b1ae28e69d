/* SPDX-License-Identifier: MIT
 *
 * rimf/base/status.h: reads /proc/PID/status and /proc/PID/pagemap.
 */
#ifndef RIMF_STATUS_H
#define RIMF_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct rimf_sys;

/* What /proc/self/pagemap says about pages from `first` on.  It is opened by the first question; pagemap_close must
 * follow. */
struct pagemap {
    const struct rimf_sys *sys; /* set this, all else 0 */
    int fd, is_opened;
    size_t n;
    uintptr_t first;
    uint64_t entries[64];
};

/* The status of this thread: others of its process may have another filter. */
struct status {
    int traced;   /* a debugger or strace is attached */
    int filtered; /* a filter of system calls is in force (seccomp) */
};
/* Returns 0, or negative errno: unknown.  `is_first`: this is the process's first thread, whose status costs 7 us less. */
int status_read(const struct rimf_sys *, int is_first, struct status *);
/* Returns 1 if the content of this page of a private mapping may not be the file's; also if it is unknown. */
int pagemap_is_own(struct pagemap *, uintptr_t page);
void pagemap_close(struct pagemap *);
/* Returns 1 if every page of these bytes, in private mappings of files, is still the file's: no
 * store, no debugger, no probe of the kernel changed it.  0: some page is not, or it is unknown. */
int status_is_unwritten(const struct rimf_sys *, uintptr_t start, size_t size);

#endif
