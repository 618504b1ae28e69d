/* SPDX-License-Identifier: MIT
 *
 * hugepages_mounts.c: where hugetlbfs is mounted, by libhugetlbfs, which also knows which
 * sizes a program can have of it, and skips mounts that this user cannot write.
 *
 * It is loaded when it is asked: its constructor reads half of /proc, and `mvld run` is to
 * start programs.
 */
#include "hugepages.h"

#ifdef MVLD_HUGETLBFS

#include <dlfcn.h>
#include <hugetlbfs.h>
#include <stdlib.h>

#define SIZES 16

static void report_mount(struct report *r, long size, const char *path)
{
    char text[32];
    char *name = must_print("hugetlbfs %s", pool_size_text(size >> 10, text, sizeof text));

    if (path)
        report_finding(r, name, FINDING_OK, NULL, "%s", path);
    else
        report_finding(r, name, FINDING_ABSENT, NULL, "no mount that this user can write");
    free(name);
}

void hugepages_mounts(struct report *r)
{
    long sizes[SIZES];
    int (*get_sizes)(long *, int);
    const char *(*find_path)(long);
    void *library;
    int n;

    if (*r->root) /* it looks at this machine, nowhere else */
        return;
    setenv("HUGETLB_VERBOSE", "0", 0); /* what it would print, the lines here say */
    library = dlopen("libhugetlbfs.so.0", RTLD_NOW);
    *(void **)&get_sizes = library ? dlsym(library, "gethugepagesizes") : NULL;
    *(void **)&find_path = library ? dlsym(library, "hugetlbfs_find_path_for_size") : NULL;
    if (!get_sizes || !find_path) {
        report_finding(r, "hugetlbfs", FINDING_ABSENT, "apt-get install libhugetlbfs0",
                       "libhugetlbfs, which finds mounts, is not there");
        return;
    }
    n = get_sizes(sizes, SIZES);
    for (int i = 0; i < n; i++)
        report_mount(r, sizes[i], find_path(sizes[i]));
    dlclose(library);
}

#else

void hugepages_mounts(struct report *r)
{
    if (!*r->root)
        report_finding(r, "hugetlbfs", FINDING_ABSENT,
                       "apt-get install libhugetlbfs-dev, and build mvld again",
                       "mvld was built without libhugetlbfs, which finds mounts");
}

#endif
