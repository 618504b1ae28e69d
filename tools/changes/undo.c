/* SPDX-License-Identifier: MIT
 *
 * changes/undo.c: takes one change back.
 *
 * A program's file holds what it was (interp/record.c), and becomes that again.  Where it was changed
 * since, or stripped of its record, it cannot be the old file any more.  Then at least its interpreter is
 * what it was, so that it starts.
 */
#include "tools/changes/changes.h"
#include "tools/common/tools.h"
#include "tools/interp/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_kind(const struct change *c, const char *kind) { return !strcmp(c->field[CHANGE_KIND], kind); }

/* A file that mvld made: 1 when it is as it was made, 0 when it is gone, -1 when it was changed. */
static int made_file_stands(const char *path, const char *sum)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), same = -1;
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
        unsigned char *text = must_alloc((size_t)st.st_size, 1);
        if (read(fd, text, (size_t)st.st_size) == st.st_size &&
            bytes_sum(text, (size_t)st.st_size) == strtoull(sum, NULL, 16))
            same = 1;
        free(text);
    }
    close(fd);
    return same;
}

static const char *undo_file(const char *path, const char *sum)
{
    int stands = made_file_stands(path, sum);
    if (stands < 0)
        return "it was changed since mvld made it, and stays";
    return stands && unlink(path) ? strerror(errno) : NULL;
}

int change_stands(const char *root, const struct change *c)
{
    if (!is_kind(c, "interp") && !is_kind(c, "file"))
        return 1;
    char *path = must_print("%s%s", root, c->field[CHANGE_PATH]);
    if (is_kind(c, "file")) {
        int made = made_file_stands(path, c->field[CHANGE_LOADER]) > 0;
        free(path);
        return made;
    }
    struct elf_file f;
    const char *interp = elf_file_open(&f, path) ? NULL : interp_of(&f);
    int stands = interp && !strcmp(interp, c->field[CHANGE_LOADER]);
    elf_file_close(&f);
    free(path);
    return stands;
}

static const char *restore_interp(const struct elf_file *f, const char *before)
{
    struct bytes now = {must_alloc(f->size, 1), f->size};
    const char *why = "there is no room for the name of its interpreter";
    memcpy(now.at, f->bytes, f->size);
    if (!interp_place(f, before, now.at))
        why = replace_file(f, &now);
    free(now.at);
    return why;
}

static const char *undo_interp(const char *path, const char *before)
{
    const char *why = NULL, *wrong = NULL;
    struct elf_file f;
    struct bytes old = {0};
    if (elf_file_open(&f, path)) {
        why = must_print("%s", f.error);
    } else if (!record_restore(&f, &old, &wrong)) {
        why = replace_file(&f, &old);
    } else {
        why = restore_interp(&f, before);
        if (!why)
            why = must_print("it was changed after set-interp: it starts under %s again, and is not "
                             "byte for byte what it was", before);
    }
    free(old.at);
    elf_file_close(&f);
    return why;
}

static const char *undo(const char *root, const struct change *c)
{
    char *path = must_print("%s%s", root, c->field[CHANGE_PATH]);
    const char *why = NULL;
    if (is_kind(c, "file"))
        why = undo_file(path, c->field[CHANGE_LOADER]);
    else if (!is_kind(c, "interp"))
        why = must_print("this version of mvld does not know the change `%s'", c->field[CHANGE_KIND]);
    else if (change_stands(root, c))
        why = undo_interp(path, c->field[CHANGE_BEFORE]);
    free(path);
    return why;
}

const char *change_undo(const char *record, const char *root, const struct change *c)
{
    const char *why = undo(root, c);
    if (why && change_stands(root, c))
        return why;
    const char *kept = changes_remove(record, c);
    return why ? why : kept;
}
