/* SPDX-License-Identifier: MIT
 *
 * hugepages.h: what `mvld hugepages` and `mvld doctor` know of huge pages.
 */
#ifndef HUGEPAGES_H
#define HUGEPAGES_H

#include "doctor.h"

/* A pool of huge pages of one size; numbers are pages, -1 where the kernel does not say. */
struct pool {
    long size; /* KB */
    long total, free, reserved, surplus, overcommit;
};

/* The pools below `root`, ascending by size, into *out (to be freed).  Their number; -1 with
 * errno: this kernel has none. */
int pools_read(const char *root, struct pool **out);
/* 2048 -> "2 MB" */
const char *pool_size_text(long size, char *to, size_t n);

/* What there is below report->root: pools, mounts, settings; and, of this machine, what each
 * `pages =` of concat comes to, tried for real. */
void hugepages_report(struct report *);
/* hugepages_try.c: NULL, a process gets such pages here; else why not (static). */
const char *hugepages_try_pool(void);
const char *hugepages_try_thp(void);
/* Of a file in this folder, shared by all processes. */
const char *hugepages_try_folder(const char *folder);

/* hugepages_mounts.c: a line for each size's hugetlbfs mount, as libhugetlbfs finds them. */
void hugepages_mounts(struct report *);

#endif
