/* SPDX-License-Identifier: MIT
 *
 * hugepages.c: `mvld hugepages`: the machine's pool of huge pages, for `pages = hugetlb` of
 * concat.
 */
#include "hugepages.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld hugepages [show] [--json] [--root FOLDER]\n"
    "       mvld hugepages reserve PAGES|SIZE [--root FOLDER]\n"
    "\n"
    "  show             pools, mounts and settings of this machine, and what they come to\n"
    "                   for each `pages' of the pass concat\n"
    "  reserve PAGES    makes the pool of 2 MB pages that large; 0 gives all back\n"
    "  reserve SIZE     the same, in MB or GB: 128M, 1G\n"
    "\n"
    "  --json           show: as JSON\n"
    "  --root FOLDER    look at proc/ and sys/ there\n"
    "  --help           this text\n"
    "\n"
    "A pool lasts until the machine is started anew; reserve says how to keep it.\n"
    "Exit code: 0, 1 when the pool could not be made that large, 2 for wrong usage.\n";

#define PAGE_KB 2048L
#define POOL "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

static int show(const char *root, int json)
{
    struct json j = {.to = stdout};
    struct report r = {.json = json ? &j : NULL, .root = root};

    if (json)
        json_begin(&j, NULL, '[');
    report_heading(&r, "Huge pages");
    hugepages_report(&r);
    if (json)
        json_end(&j, ']');
    return TOOL_OK;
}

/* ---- reserve -------------------------------------------------------------------------- */

/* "64", "128M", "1G": pages; -1: it is none of that. */
static long parse_pages(const char *text)
{
    char *end;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    if (end == text || errno || *text == '-' || *text == '+' || n > (1ll << 30))
        return -1;
    if (!*end)
        return (long)n;
    if (end[1] || (*end != 'M' && *end != 'G'))
        return -1;
    n *= *end == 'G' ? 1 << 20 : 1 << 10; /* KB */
    return (long)((n + PAGE_KB - 1) / PAGE_KB);
}

static int find_pool(const char *root, struct pool *out)
{
    struct pool *pools;
    int n = pools_read(root, &pools), found = 0;

    for (int i = 0; i < n; i++)
        if (pools[i].size == PAGE_KB) {
            *out = pools[i];
            found = 1;
        }
    free(pools);
    return found;
}

/* MemAvailable, in KB; -1: the kernel does not say. */
static long available(const char *root)
{
    char *path = must_print("%s/proc/meminfo", root);
    FILE *f = fopen(path, "r");
    char line[128];
    long kb = -1;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %ld kB", &kb) == 1)
            break;
    if (f)
        fclose(f);
    free(path);
    return kb;
}

/* The kernel takes what it finds, page by page, and programs that then need memory die. */
static int is_too_much(const char *root, const struct pool *pool, long pages)
{
    long kb = available(root), more = pages - pool->total;

    if (kb < 0 || more <= 0 || more <= kb / PAGE_KB / 10 * 9)
        return 0;
    complain("hugepages", "%ld more pages are %ld MB, and the machine has %ld MB that are free: "
             "nothing is changed", more, more * PAGE_KB >> 10, kb >> 10);
    return 1;
}

static int write_number(const char *path, long n)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%ld\n", n), failed;
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    if (fd < 0)
        return -1;
    failed = write(fd, text, (size_t)size) != size;
    return close(fd) || failed ? -1 : 0;
}

static void say_why_fewer(const struct pool *now, long pages)
{
    if (now->total < pages)
        complain("hugepages", "%ld pages of %ld: no more memory is free in pieces of 2 MB.  Try "
                 "again after `echo 1 > /proc/sys/vm/compact_memory', or reserve them when the "
                 "machine starts: hugepagesz=2M hugepages=%ld on the kernel's command line",
                 now->total, pages, pages);
    else
        complain("hugepages", "%ld pages, not %ld: programs use them", now->total, pages);
}

static int reserve(const char *root, long pages)
{
    struct pool before, now;
    char *path = must_print("%s" POOL, root);
    int failed;

    if (!find_pool(root, &before)) {
        complain("hugepages", "this kernel has no pool of 2 MB pages (CONFIG_HUGETLBFS)");
        return TOOL_FAILED;
    }
    if (is_too_much(root, &before, pages))
        return TOOL_FAILED;
    failed = write_number(path, pages);
    if (failed) {
        complain("hugepages", "%s: %s; nothing is changed.  As root: mvld hugepages reserve %ld",
                 path, strerror(errno), pages);
        return TOOL_FAILED;
    }
    free(path);
    if (!find_pool(root, &now))
        return TOOL_FAILED;
    printf("The pool has %ld pages of 2 MB (it had %ld), of which %ld are free.\n", now.total,
           before.total, now.free);
    if (now.total != pages) {
        say_why_fewer(&now, pages);
        return TOOL_FAILED;
    }
    if (pages)
        printf("To keep it when the machine is started anew:\n"
               "    echo vm.nr_hugepages=%ld > /etc/sysctl.d/60-hugepages.conf\n", pages);
    return TOOL_OK;
}

/* ----------------------------------------------------------------------------------------- */

static int wrong(const char *what)
{
    complain("hugepages", "%s", what);
    fputs(usage, stderr);
    return TOOL_USAGE;
}

int tool_hugepages(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"root", required_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *root = "";
    int json = 0, c;
    long pages;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'j': json = 1; break;
        case 'r': root = optarg; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind == argc || (optind + 1 == argc && !strcmp(argv[optind], "show")))
        return show(root, json);
    if (strcmp(argv[optind], "reserve"))
        return wrong("say show or reserve");
    if (optind + 2 != argc || json)
        return wrong("reserve takes a number of pages, or a size");
    pages = parse_pages(argv[optind + 1]);
    return pages < 0 ? wrong("that is neither a number of pages nor a size (64, 128M, 1G)")
                     : reserve(root, pages);
}
