/* SPDX-License-Identifier: MIT
 *
 * loader/caller/early.c: the caller hooks' jumps in the host loader, written with our other changes to it.
 *
 * A snapshot says where the functions are that answer (`kept`), and where the stubs will be: all of it
 * lies at constant distances from the host loader.  So these jumps need not wait until the snapshot is
 * compared, and its text is opened once.  Nobody calls these functions before constructors do.
 *
 * Where the snapshot is not taken, or these are not the jumps that it needs (caller/snapshot.c), what stood
 * there is put back: when other files are mapped than it expects, before anything is relocated, else
 * before any constructor.
 */
#include "loader/caller/private.h"

#include <errno.h> /* numbers only */

/* The host loader's number in the snapshot, when it is the file that is mapped here; or n_objects. */
static uint32_t find_host(const struct loader *l, const struct manifest *snapshot)
{
    const struct file_id *host = files_identity(l, l->host.start);
    uint32_t n = snapshot->header->n_objects, i = host ? 0 : n;

    while (i < n && (snapshot->objects[i].flags & MANIFEST_UNPLACED ||
                     !file_id_same(&snapshot->objects[i].file, host)))
        i++;
    return i;
}

size_t caller_early(struct loader *l, struct text_patch *patch)
{
    const struct manifest *snapshot = &l->snapshot.file.view;
    const struct manifest_region *region = l->snapshot.awaited ? snapshot->region : NULL;
    struct caller_hooks then = {.kept = 1};
    struct caller_hooks *caller = &l->caller;
    struct hook hook;
    const char *why;
    uint32_t host;

    if (!region || !region->described || !l->filtered.untraced)
        return 0;
    host = find_host(l, snapshot);
    if (host == snapshot->header->n_objects)
        return 0;
    then.stubs = l->host.bias + region->described +
                 (uintptr_t)(snapshot->objects[region->object].distance - snapshot->objects[host].distance);
    for (uint32_t i = 0; i < snapshot->header->n_kept; i++) {
        const struct manifest_kept *kept = &snapshot->kept[i];
        struct early_jump *early = &caller->early[caller->n_early];

        if (kept->object != host || kept->number >= CALLER_NEEDED)
            continue;
        then.functions[kept->number] = (struct caller_function){l->host.bias + kept->linked, kept->size};
        if (then.functions[kept->number].at < l->host.text ||
            kept->linked + kept->size > l->host.text_end - l->host.bias ||
            caller_hook(&then, kept->number, &hook, &why))
            continue;
        early->at = hook.at;
        memcpy(early->was, hook.was, sizeof early->was);
        memcpy(early->jump, hook.jump, sizeof early->jump);
        patch[caller->n_early] = (struct text_patch){.at = hook.at, .length = DISPLACE_JUMP};
        memcpy(patch[caller->n_early++].bytes, hook.jump, DISPLACE_JUMP);
    }
    return caller->n_early;
}

int caller_take_back(struct loader *l)
{
    struct caller_hooks *caller = &l->caller;
    struct text_patch patch[CALLER_NEEDED];
    int err;

    if (!caller->n_early)
        return 0;
    for (size_t i = 0; i < caller->n_early; i++) {
        patch[i] = (struct text_patch){.at = caller->early[i].at, .length = DISPLACE_JUMP};
        memcpy(patch[i].bytes, caller->early[i].was, DISPLACE_JUMP);
    }
    err = text_write_again(l->sys, &l->host, patch, caller->n_early);
    if (!err)
        caller->n_early = 0;
    return err;
}

void caller_original(const struct caller_hooks *caller, uintptr_t at, uint8_t *to, size_t size)
{
    memcpy(to, (const void *)at, size);
    for (size_t i = 0; i < caller->n_early; i++) {
        const struct early_jump *early = &caller->early[i];

        for (size_t k = 0; k < sizeof early->was; k++)
            if (early->at + k - at < size)
                to[early->at + k - at] = early->was[k];
    }
}

int caller_is_early(const struct caller_hooks *caller, const struct hook *hook)
{
    for (size_t i = 0; i < caller->n_early; i++)
        if (caller->early[i].at == hook->at &&
            memcmp(caller->early[i].jump, hook->jump, sizeof hook->jump) == 0)
            return 1;
    return 0;
}
