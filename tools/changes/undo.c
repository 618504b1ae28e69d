/* SPDX-License-Identifier: MIT
 *
 * changes/undo.c: reverts one change.
 *
 * A program's file contains the record to restore it (interp/record.c).  If it was changed since,
 * or its record was stripped, it cannot be restored.  Then at least its interpreter is, so that it
 * starts.
 */
#include "tools/changes/cached.h"
#include "tools/changes/changes.h"
#include "tools/changes/made.h"
#include "tools/common/tools.h"
#include "tools/interp/interp.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- interp ---------------------------------------------------------------------------- */

static int interp_stands(const struct change *c)
{
    struct elf_file f;
    const char *interp = elf_file_open(&f, c->field[CHANGE_PATH]) ? NULL : interp_of(&f);
    int stands = interp && !strcmp(interp, c->field[CHANGE_LOADER]);
    elf_file_close(&f);
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

static const char *undo_interp(const struct change *c)
{
    const char *why = NULL, *wrong = NULL, *path = c->field[CHANGE_PATH], *before = c->field[CHANGE_BEFORE];
    struct elf_file f;
    struct bytes old = {0};

    if (!interp_stands(c))
        return NULL;
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

/* ---- files that were made ------------------------------------------------------------------ */

static int file_stands(const struct change *c)
{
    return made_stands(c->field[CHANGE_PATH], c->field[CHANGE_SUM]) > 0;
}

static const char *undo_file(const struct change *c)
{
    return made_remove(c->field[CHANGE_PATH], c->field[CHANGE_SUM]);
}

static const char *undo_config(const struct change *c)
{
    const char *path = c->field[CHANGE_PATH], *why = undo_file(c);
    if (!why)
        cached_config_forget(path, change_program(c));
    return why;
}

/* ---- all ----------------------------------------------------------------------------------- */

static const struct kind {
    const char *name;
    int (*stands)(const struct change *);
    const char *(*undo)(const struct change *);
} kinds[] = {
    {"interp", interp_stands, undo_interp},
    {"file", file_stands, undo_config},
    {"wrapper", file_stands, undo_file},
    {"unit", file_stands, undo_file},
};

static const struct kind *kind_of(const struct change *c)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(c->field[CHANGE_KIND], kinds[i].name))
            return &kinds[i];
    return NULL;
}

int change_stands(const struct change *c)
{
    const struct kind *kind = kind_of(c);
    return !kind || kind->stands(c);
}

const char *change_undo(const char *record, const struct change *c)
{
    const struct kind *kind = kind_of(c);
    if (!kind)
        return must_print("this version of mvld does not know the change `%s'", c->field[CHANGE_KIND]);
    asides_remove(c->field[CHANGE_PATH]); /* of a killed tool */
    const char *why = kind->undo(c);
    if (why && change_stands(c))
        return why;
    const char *kept = changes_remove(record, c);
    changes_remove_folders(record);
    return why ? why : kept;
}
