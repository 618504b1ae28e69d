/* SPDX-License-Identifier: MIT
 *
 * rimf/base/status.h: what /proc/PID/status says, and /proc/PID/pagemap.
 */
#ifndef RIMF_STATUS_H
#define RIMF_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct rimf_sys;

/* What follows `name` ("TracerPid:") at the start of a line of `status`, or NULL. */
const char *status_field(const char *status, const char *name);
/* The hexadecimal number there, behind blanks; a decimal one is 0 exactly when this is. */
uint64_t status_hex(const char *value);
/* Of this thread's process. */
struct status {
    int traced;   /* a debugger or strace is attached */
    int filtered; /* a filter of system calls is in force (seccomp) */
};
/* 0, or negative errno: not known. */
int status_read(const struct rimf_sys *, struct status *);
/* 1 when every page of these bytes, of private mappings of files, still is the file's: nobody
 * wrote there, no debugger, no probe of the kernel's.  0: some page is not, or not known. */
int status_is_unwritten(const struct rimf_sys *, uintptr_t start, size_t size);

#endif
