/* SPDX-License-Identifier: MIT
 *
 * profile.h: the functions in a perf recording.
 */
#ifndef PROFILE_H
#define PROFILE_H

#include "tools/common/elf_file.h"
#include "rimf/analyze/frames/frames.h"

#include <stdio.h>

struct file {
    char *path, *name; /* name: as it is loaded */
    struct object object;
    struct elf_file elf; /* its names, once requested */
    int is_elf, asked;
    size_t counted;       /* index of the first file that is the same object, to which its samples
                           * are added */
    struct vector frames; /* struct frame */
    size_t *samples;      /* by frame */
    char **called;        /* by frame: its name, or NULL */
};

struct mapping {
    unsigned long pid;
    uint64_t start, size, offset;
    size_t file;
};

struct recording {
    struct file **files;
    struct mapping *maps;
    size_t n_files, n_maps, n_samples, n_known;
};

/* Adds the output of `perf script -G --show-mmap-events -F pid,ip,sym,dso`. */
void recording_read(struct recording *, FILE *from);
void recording_forget(struct recording *);

#endif
