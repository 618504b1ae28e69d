/* SPDX-License-Identifier: MIT
 *
 * reseal FILE ORIGINAL-SIZE FIELD VALUE: an overlay alone (rimf/store/manifest.h) with one field changed, whose checksum
 * and identity fit all the same.  FIELD: word0, call0, made_by, build_id, file_inode, text0,
 * or nothing.
 */
#include "rimf/base/base.h"
#include "rimf/store/manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void change(struct manifest_header *h, const char *field, uint64_t value)
{
    struct manifest_object *self = (struct manifest_object *)(h + 1);
    struct manifest_text *texts = (struct manifest_text *)(self + h->n_objects);
    struct manifest_word *words = (struct manifest_word *)(texts + h->n_texts);
    struct analysis_call *calls = (struct analysis_call *)(words + h->n_words);

    if (!strcmp(field, "word0"))
        words[0].to_linked += (uint32_t)value;
    else if (!strcmp(field, "call0"))
        calls[0].address += (uint32_t)value;
    else if (!strcmp(field, "made_by"))
        h->made_by += value;
    else if (!strcmp(field, "build_id"))
        self->build_id += value;
    else if (!strcmp(field, "file_inode"))
        self->file.inode += value;
    else if (!strcmp(field, "text0"))
        texts[0].offset += value;
}

int main(int argc, char **argv)
{
    uint64_t at = argc == 5 ? rimf_page_up(strtoull(argv[2], NULL, 0)) : 0, size;
    int fd = at ? open(argv[1], O_RDWR) : -1;
    struct manifest_header *h;
    struct manifest_object *self;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size <= at)
        return 1;
    size = (uint64_t)st.st_size - at;
    h = malloc(size);
    if (!h || pread(fd, h, size, (off_t)at) != (ssize_t)size)
        return 1;
    change(h, argv[3], strtoull(argv[4], NULL, 0));
    self = (struct manifest_object *)(h + 1);
    file_id_of(&self->overlay, &st);
    self->overlay.changed = 0;
    h->checksum = manifest_checksum(h, size);
    if (pwrite(fd, h, size, (off_t)at) != (ssize_t)size ||
        futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}))
        return 1;
    free(h);
    return 0;
}
