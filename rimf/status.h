/* SPDX-License-Identifier: MIT
 *
 * rimf/status.h: what /proc/PID/status says.
 */
#ifndef RIMF_STATUS_H
#define RIMF_STATUS_H

#include <stdint.h>

struct rimf_sys;

/* What follows `name` ("TracerPid:") at the start of a line of `status`, or NULL. */
const char *status_field(const char *status, const char *name);
/* The hexadecimal number there, behind blanks; a decimal one is 0 exactly when this is. */
uint64_t status_hex(const char *value);
/* 1 when a debugger or strace is attached, 0 when not, negative errno: not known. */
int status_is_traced(const struct rimf_sys *);

#endif
