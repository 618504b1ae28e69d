/* SPDX-License-Identifier: MIT
 *
 * loader/config/why.h: the one sentence of a plan that was refused.
 */
#ifndef LOADER_PIPELINE_WHY_H
#define LOADER_PIPELINE_WHY_H

#include <stddef.h>

struct why {
    char *text;
    size_t size;
};

/* The `err` of a refusal for which what somebody wrote is not to blame: a system call
 * failed that fails for want of memory, of descriptors, or in a sandbox. */
#define BY_KERNEL EIO

/* Keeps the sentence and returns -err. */
int refuse(const struct why *, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, after "FILE:LINE: ", or "FILE: " when line is 0. */
int refuse_at(const struct why *, int err, const char *file, unsigned line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
