/* SPDX-License-Identifier: MIT
 *
 * made_seeds.c: writes the seeds of the fuzzers of our file formats.
 *
 *     made_seeds FROZEN LATER READY READY-ALL SIDECAR
 *
 * They are the files with every kind of entry that tests/rimf sees taken, and spoils.  Kept as files, they would
 * be of an older version some day, and then no fuzzer would come further than to the version.
 */
#include "rimf/made_frozen.h"
#include "rimf/made_later.h"
#include "rimf/made_ready.h"
#include "rimf/made_sidecar.h"

#include <stdio.h>

static int put(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    int good = file && fwrite(bytes, 1, size, file) == size;

    if ((file && fclose(file)) || !good) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct made_frozen frozen;
    static struct made_later later;
    static struct made_ready own, all;
    static struct made_sidecar sidecar;

    if (argc != 6)
        return 2;
    made_frozen_make(&frozen);
    made_later_make(&later);
    made_ready_make(&own);
    all = own;
    all.header.reach = READY_ALL;
    all.slots[0].leads = -0x1000; /* in another object */
    all.slots[1].calls |= READY_LEFT;
    made_ready_seal(&all, sizeof all);
    made_sidecar(&sidecar);
    return put(argv[1], &frozen, sizeof frozen) || put(argv[2], &later, sizeof later) ||
           put(argv[3], &own, sizeof own) || put(argv[4], &all, sizeof all) ||
           put(argv[5], &sidecar, sizeof sidecar);
}
