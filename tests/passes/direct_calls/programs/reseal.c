/* SPDX-License-Identifier: MIT
 *
 * reseal FILE ORIGINAL-SIZE FIELD VALUE: ready code (rimf/store/ready.h) with one field changed, whose checksum
 * and identity fit all the same.  FIELD: slot0, reach, rest0, made_by, build_id, file_inode, text0;
 * program, whose VALUE is a path; or nothing.
 */
#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/store/ready.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void change(struct ready_header *h, const char *field, const char *text)
{
    uint64_t value = strtoull(text, NULL, 0);
    struct frozen_text *texts = (struct frozen_text *)(h + 1);
    struct analysis_call *rest = (struct analysis_call *)(texts + h->n_texts);
    struct stat st;
    struct ready_slot *slots = (struct ready_slot *)(rest + h->n_rest);

    if (!strcmp(field, "slot0"))
        slots[0].leads += (int64_t)value;
    else if (!strcmp(field, "program") && !stat(text, &st))
        file_id_of(&h->program, &st);
    else if (!strcmp(field, "reach"))
        h->reach += (uint32_t)value;
    else if (!strcmp(field, "rest0"))
        rest[0].address += (uint32_t)value;
    else if (!strcmp(field, "made_by"))
        h->made_by += value;
    else if (!strcmp(field, "build_id"))
        h->build_id += value;
    else if (!strcmp(field, "file_inode"))
        h->file.inode += value;
    else if (!strcmp(field, "text0"))
        texts[0].offset += value;
}

int main(int argc, char **argv)
{
    uint64_t at = argc == 5 ? rimf_page_up(strtoull(argv[2], NULL, 0)) : 0, size;
    int fd = at ? open(argv[1], O_RDWR) : -1;
    struct ready_header *h;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size <= at)
        return 1;
    size = (uint64_t)st.st_size - at;
    h = malloc(size);
    if (!h || pread(fd, h, size, (off_t)at) != (ssize_t)size)
        return 1;
    change(h, argv[3], argv[4]);
    file_id_of(&h->self, &st);
    h->self.changed = 0;
    h->checksum = frozen_checksum(h, size);
    if (pwrite(fd, h, size, (off_t)at) != (ssize_t)size ||
        futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}))
        return 1;
    free(h);
    return 0;
}
