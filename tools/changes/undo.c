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

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_known(const struct change *c) { return !strcmp(c->field[CHANGE_KIND], "interp"); }

int change_stands(const char *root, const struct change *c)
{
    if (!is_known(c))
        return 1;
    char *path = must_print("%s%s", root, c->field[CHANGE_PATH]);
    struct elf_file f;
    const char *interp = elf_file_open(&f, path) ? NULL : interp_of(&f);
    int stands = interp && !strcmp(interp, c->field[CHANGE_LOADER]);
    elf_file_close(&f);
    free(path);
    return stands;
}

static const char *restore_interp(const struct elf_file *f, const char *path, const char *before)
{
    struct bytes now = {must_alloc(f->size, 1), f->size};
    const char *why = "there is no room for the name of its interpreter";
    memcpy(now.at, f->bytes, f->size);
    if (!interp_place(f, before, now.at))
        why = replace_file(path, &now);
    free(now.at);
    return why;
}

const char *change_undo(const char *root, const struct change *c)
{
    const char *before = c->field[CHANGE_BEFORE], *why = NULL, *wrong = NULL;
    if (!is_known(c))
        return must_print("this version of mvld does not know the change `%s'", c->field[CHANGE_KIND]);
    if (!change_stands(root, c))
        return NULL;

    char *path = must_print("%s%s", root, c->field[CHANGE_PATH]);
    struct elf_file f;
    struct bytes old = {0};
    if (elf_file_open(&f, path)) {
        why = must_print("%s", f.error);
    } else if (!record_restore(&f, &old, &wrong)) {
        why = replace_file(path, &old);
    } else {
        why = restore_interp(&f, path, before);
        if (!why)
            why = must_print("it was changed after set-interp: it starts under %s again, and is not "
                             "byte for byte what it was", before);
    }
    free(old.at);
    elf_file_close(&f);
    free(path);
    return why;
}
