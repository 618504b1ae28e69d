/* SPDX-License-Identifier: MIT
 *
 * made_seed.c: writes a seed of the fuzzers of our file formats.
 *
 *     made_seed manifest|later|analysis FILE
 *
 * It is the file with every kind of entry that tests/rimf sees taken, and spoils.  Kept as a file, it would
 * be of an older version some day, and then no fuzzer would come further than to the version.
 */
#include "../rimf/store/made_manifest.h"
#include "../rimf/analysis/made_analysis.h"

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
    static struct made_manifest start;
    static struct made_later later;
    static struct made_analysis analysis;
    static const struct {
        const char *kind;
        const void *bytes;
        size_t size;
    } seeds[] = {{"manifest", &start, sizeof start}, {"later", &later, sizeof later},
                 {"analysis", &analysis, sizeof analysis}};

    if (argc != 3)
        return 2;
    made_manifest_make(&start);
    made_later_make(&later);
    made_analysis(&analysis);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        if (!strcmp(argv[1], seeds[i].kind))
            return put(argv[2], seeds[i].bytes, seeds[i].size);
    return 2;
}
