/* SPDX-License-Identifier: MIT
 *
 * patch/record.c: our pages in a process.
 */
#include "tools/patch/patch.h"
#include "tools/common/tools.h"

#include <stdlib.h>
#include <string.h>

#define REACH 0x7ff00000u /* of a jump */
#define LOWEST 0x10000u

static const char magic[16] = "mvld patch 1";
static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */

_Static_assert(sizeof(struct patch_record) == PATCH_PAGE, "it is a page");

void record_make(struct patch_record *r, const struct replacement *what, uint64_t target)
{
    const char *const names[] = {what->library, what->function, what->file, what->with};
    char *to = r->names;

    memset(r, 0, sizeof *r);
    memcpy(r->jump, jump, sizeof jump);
    memcpy(r->jump + sizeof jump, &target, sizeof target);
    memcpy(r->magic, magic, sizeof magic);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t room = (size_t)(r->names + sizeof r->names - to) - (sizeof names / sizeof *names - i);

        to += strlen(names[i]) > room ? 0 : strlen(strcpy(to, names[i]));
        to++;
    }
}

uint64_t record_target(const struct patch_record *r)
{
    uint64_t target;

    memcpy(&target, r->jump + sizeof jump, sizeof target);
    return target;
}

/* Reads four terminated strings, whatever bytes are there. */
static void read_names(struct patched *p)
{
    char *at = p->record.names, **const names[] = {&p->what.library, &p->what.function, &p->what.file, &p->what.with};

    p->record.names[sizeof p->record.names - 1] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *names[i] = at;
        at += strlen(at);
        at += at < p->record.names + sizeof p->record.names - 1;
    }
}

static int is_in_force(const struct attach *a, const struct patched *p)
{
    uint8_t bytes[PATCH_JUMP];
    int n = 0;

    for (size_t i = 0; i < 2; i++) {
        const struct patch_place *place = &p->record.places[i];

        if (place->at && (attach_read(a, place->at, bytes, sizeof bytes) || memcmp(bytes, place->now, sizeof bytes) != 0))
            return 0;
        n += place->at != 0;
    }
    return n > 0;
}

static void read_record(const struct attach *a, uint64_t page, struct patched **list, size_t *n)
{
    struct patched p = {.page = page};

    if (attach_read(a, page, &p.record, sizeof jump + 8 + 2 + sizeof magic) ||
        memcmp(p.record.magic, magic, sizeof magic) != 0 || memcmp(p.record.jump, jump, sizeof jump) != 0 ||
        attach_read(a, page, &p.record, sizeof p.record))
        return;
    p.in_force = is_in_force(a, &p);
    *list = must_grow(*list, *n + 1, sizeof **list);
    (*list)[(*n)++] = p;
}

int records_read(const struct attach *a, struct patched **list, size_t *n)
{
    char *maps = attach_file(a, "maps", NULL);

    *list = NULL;
    *n = 0;
    for (const char *line = maps; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        uint64_t start, end, inode;
        char protection[8];

        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &start, &end, protection, &inode) != 4 || inode ||
            strcmp(protection, "r-xp") != 0)
            continue;
        for (; start < end; start += PATCH_PAGE) /* the kernel joins what lies side by side */
            read_record(a, start, list, n);
    }
    free(maps);
    for (size_t i = 0; i < *n; i++) /* the list lies still by now */
        read_names(&(*list)[i]);
    return maps ? 0 : -1;
}

int record_is_of(const struct patched *p, const char *library, const char *function)
{
    return !strcmp(p->what.library, library) && !strcmp(p->what.function, function);
}

static int reaches(uint64_t page, const struct patch_place places[2])
{
    for (size_t i = 0; i < 2; i++)
        if (places[i].at && page - places[i].at + REACH > 2ull * REACH)
            return 0;
    return 1;
}

/* The highest free page below the first place, where neither heap nor stack grows; else the lowest above
 * it. */
uint64_t record_room(const struct attach *a, const struct patch_place places[2])
{
    char *maps = attach_file(a, "maps", NULL);
    uint64_t place = places[0].at ? places[0].at : places[1].at, before = LOWEST, below = 0, above = 0, start, end;

    for (const char *line = maps; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (sscanf(line, "%lx-%lx", &start, &end) != 2)
            continue;
        if (start > before && start <= place && start - before >= PATCH_PAGE)
            below = start - PATCH_PAGE;
        if (start > before && before > place && !above)
            above = before;
        before = end;
    }
    free(maps);
    if (below && reaches(below, places))
        return below;
    return above && reaches(above, places) ? above : 0;
}
