/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/versions.c: symbol versions.
 *
 * DT_VERSYM has one 16-bit entry for each symbol: the number of its version, and whether the symbol
 * is hidden (not the default of its name).  Numbers 0 and 1 mean local and global without version;
 * DT_VERDEF assigns numbers to the versions that the object defines, DT_VERNEED to those that it
 * needs.  Both tables are chains of forward distances.
 */
#include "rimf/elf/view.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

int elf_versym(const struct elf_view *view, size_t index, uint16_t *out)
{
    if (!view->versym || index >= view->symbols_limit ||
        elf_room(view, (uintptr_t)(view->versym + index)) < sizeof *view->versym)
        return -ENOENT;
    *out = view->versym[index];
    return 0;
}

/* The address of the next record of a chain if one of `size` bytes fits there, or 0.  The segment
 * of the first one ends at `end`; nearly all are in it. */
static uintptr_t follow(const struct elf_view *view, uintptr_t at, uint32_t distance, size_t size,
                        uintptr_t end)
{
    uintptr_t next = at + distance;

    if (!distance || next < at || next % 4 != 0 ||
        (next < end ? end - next : elf_room(view, next)) < size)
        return 0;
    return next;
}

static uintptr_t end_at(const struct elf_view *view, uintptr_t at)
{
    return at ? at + elf_room(view, at) : 0;
}

const char *elf_version_defined(const struct elf_view *view, unsigned number)
{
    uintptr_t at = view->verdef, end = end_at(view, at);

    for (size_t i = 0; at && i < view->n_verdef; i++) {
        const Elf64_Verdef *record = (const Elf64_Verdef *)at;

        if ((record->vd_ndx & ELF_VERSION_INDEX) == number) {
            uintptr_t name = follow(view, at, record->vd_aux, sizeof(Elf64_Verdaux), end);

            if (!name || record->vd_flags & VER_FLG_BASE)
                return NULL;
            return elf_string(view, ((const Elf64_Verdaux *)name)->vda_name);
        }
        at = follow(view, at, record->vd_next, sizeof *record, end);
    }
    return NULL;
}

static const char *needed_of_file(const struct elf_view *view, uintptr_t file, unsigned number,
                                  uintptr_t end)
{
    const Elf64_Verneed *record = (const Elf64_Verneed *)file;
    uintptr_t at = follow(view, file, record->vn_aux, sizeof(Elf64_Vernaux), end);

    for (size_t i = 0; at && i < record->vn_cnt; i++) {
        const Elf64_Vernaux *version = (const Elf64_Vernaux *)at;

        if ((version->vna_other & ELF_VERSION_INDEX) == number)
            return elf_string(view, version->vna_name);
        at = follow(view, at, version->vna_next, sizeof *version, end);
    }
    return NULL;
}

static const char *needed_version(const struct elf_view *view, unsigned number)
{
    uintptr_t at = view->verneed, end = end_at(view, at);

    for (size_t i = 0; at && i < view->n_verneed; i++) {
        const char *name = needed_of_file(view, at, number, end);

        if (name)
            return name;
        at = follow(view, at, ((const Elf64_Verneed *)at)->vn_next, sizeof(Elf64_Verneed), end);
    }
    return NULL;
}

const char *elf_version_name(const struct elf_view *view, unsigned number)
{
    const char *name = elf_version_defined(view, number);

    return name ? name : needed_version(view, number);
}
