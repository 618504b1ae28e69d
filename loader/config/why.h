/* SPDX-License-Identifier: MIT
 *
 * loader/config/why.h: the sentence of a refused plan.
 */
#ifndef LOADER_PIPELINE_WHY_H
#define LOADER_PIPELINE_WHY_H

#include <stddef.h>

struct why {
    char *text;
    size_t size;
};

/* The `err` of a refusal that no author of a configuration caused: a system call failed for lack of
 * memory or descriptors, or in a sandbox. */
#define BY_KERNEL EIO

/* Stores the sentence and returns -err. */
int refuse(const struct why *, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with the prefix "FILE:LINE: ", or "FILE: " if line is 0. */
int refuse_at(const struct why *, int err, const char *file, unsigned line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
