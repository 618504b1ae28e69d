/* SPDX-License-Identifier: MIT
 *
 * frames.c: the sorted table of the region and the records that it leads to, read
 * as an unwinder does, and compared with those of the file (moved.h).
 */
#include "moved.h"

#include <unistd.h>

#define RECORD_MAX 65536u
#define INDIRECT 0x80u

struct search {
    uint8_t encodings[4];
    int32_t frames;
    uint32_t count;
};
struct searched {
    int32_t code, fde;
};

/* One record: an FDE or a CIE, and the addresses that it names. */
struct said {
    uintptr_t address;
    uint8_t bytes[RECORD_MAX]; /* with zeros instead of distances out of it */
    size_t size;
    uintptr_t start, length; /* FDE */
    uintptr_t cie, other;    /* other: the exception table, or the personality */
    int has_table;           /* CIE */
};

typedef void reader(void *from, uintptr_t at, void *to, size_t size);

static void from_process(void *from, uintptr_t at, void *to, size_t size)
{
    process_read(from, at, to, size);
}

static void from_file(void *from, uintptr_t at, void *to, size_t size)
{
    const struct seen_object *o = from;
    const uint8_t *bytes = object_at(&o->analysis.object, at - o->bias, size);

    CHECK(bytes, "(%s: 0x%lx)", o->path, (unsigned long)(at - o->bias));
    memcpy(to, bytes, size);
}

static void take_bytes(struct said *s, uintptr_t at, reader *read, void *from)
{
    uint32_t length;

    read(from, at, &length, sizeof length);
    CHECK(length && length < RECORD_MAX - 4, "(a record of %u bytes)", length);
    s->address = at;
    s->size = length + 4;
    read(from, at, s->bytes, s->size);
}

/* The distance at `i`, which counts from its own place; 0 when it is 0. */
static uintptr_t take_distance(struct said *s, size_t i)
{
    int32_t distance = distance_at(s->bytes + i);

    CHECK(i + 4 <= s->size);
    memset(s->bytes + i, 0, 4);
    return distance ? s->address + i + (uintptr_t)(intptr_t)distance : 0;
}

static size_t skip_number(const struct said *s, size_t i)
{
    while (i < s->size && s->bytes[i] & 0x80)
        i++;
    return i + 1;
}

static void take_cie(struct said *s, uintptr_t at, reader *read, void *from)
{
    const char *letters;
    size_t i;

    take_bytes(s, at, read, from);
    CHECK(distance_at(s->bytes + 4) == 0);
    s->other = 0;
    s->has_table = 0;
    letters = (const char *)s->bytes + 9;
    if (*letters != 'z')
        return;
    i = skip_number(s, skip_number(s, 9 + strlen(letters) + 1));
    i = s->bytes[8] == 1 ? i + 1 : skip_number(s, i);
    i = skip_number(s, i);
    while (*++letters) {
        if (*letters == 'P') {
            CHECK((s->bytes[i] & ~INDIRECT) == 0x1b);
            s->other = take_distance(s, i + 1);
            i += 5;
        } else if (*letters == 'L' || *letters == 'R') {
            CHECK(s->bytes[i] == 0x1b);
            s->has_table |= *letters == 'L';
            i++;
        } else {
            CHECK(*letters == 'S' || *letters == 'B', "(%c)", *letters);
        }
    }
}

static void take_fde(struct said *s, struct said *cie, uintptr_t at, reader *read, void *from)
{
    take_bytes(s, at, read, from);
    s->cie = at + 4 - (uint32_t)distance_at(s->bytes + 4);
    take_cie(cie, s->cie, read, from);
    s->start = take_distance(s, 8);
    s->length = (uint32_t)distance_at(s->bytes + 12);
    s->other = cie->has_table ? take_distance(s, skip_number(s, 16)) : 0;
}

static int same(const struct said *a, const struct said *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0 && a->other == b->other;
}

/* ---- the sorted table ------------------------------------------------------------------- */

static const struct searched *find(const struct searched *table, size_t n, int64_t code)
{
    size_t begun = RIMF_BISECT(i, n, table[i].code <= code);

    return begun ? &table[begun - 1] : NULL;
}

static void check_frame(struct process *p, struct seen_object *o, const struct analysis_frame *frame,
                        const struct searched *table, size_t n)
{
    static struct said was, is, was_cie, is_cie;
    uintptr_t moved_at = place_of(o, o->bias + frame->start);
    const struct unit *u = unit_at(&o->analysis, frame->start);
    const struct searched *found = find(table, n, (int64_t)(moved_at - p->frames));

    p->n_frames++;
    if (!found || found->code != (int64_t)(moved_at - p->frames)) {
        wrong(p, o, frame->start, "the table does not know the moved code");
        return;
    }
    take_fde(&was, &was_cie, o->bias + frame->fde, from_file, o);
    take_fde(&is, &is_cie, p->frames + (uintptr_t)(intptr_t)found->fde, from_process, p);
    CHECK(u && was.start == o->bias + u->start && was.length == u->end - u->start);
    if (is.start != moved_at || is.length != was.length)
        wrong(p, o, frame->start, "the range is 0x%lx, 0x%lx bytes", (unsigned long)is.start,
              (unsigned long)is.length);
    else if (!same(&was, &is) || !same(&was_cie, &is_cie))
        wrong(p, o, frame->start, "the moved code unwinds in another way");
}

/* Those of the loader's, in the library's first page, come before all others; returns how many. */
static size_t check_stubs(const struct process *p, const struct searched *table, size_t n)
{
    static struct said is, is_cie;
    size_t i = 0;

    for (; i < n && table[i].code < 0; i++) {
        uintptr_t stub = p->frames + (uintptr_t)(intptr_t)table[i].code;

        take_fde(&is, &is_cie, p->frames + (uintptr_t)(intptr_t)table[i].fde, from_process,
                 (void *)(uintptr_t)p);
        CHECK(is.start == stub && is.length && stub >= p->library &&
              stub + is.length <= p->library + 0x1000, "(entry %zu)", i);
    }
    CHECK(i, "(no stub is described)");
    return i;
}

void check_unwinding(struct process *p)
{
    struct searched *table;
    struct search search;
    size_t n;

    process_read(p, p->frames, &search, sizeof search);
    CHECK(memcmp(search.encodings, "\1\x1b\3\x3b", 4) == 0);
    table = malloc(search.count * sizeof *table);
    CHECK(table);
    process_read(p, p->frames + sizeof search, table, search.count * sizeof *table);
    for (size_t i = 1; i < search.count; i++)
        CHECK(table[i - 1].code < table[i].code, "(entries %zu and %zu)", i - 1, i);
    n = check_stubs(p, table, search.count);
    for (size_t i = 0; i < p->n; i++) {
        struct seen_object *o = &p->objects[i];
        const struct analysis_frame *frames = o->analysis.moved_frames.at;
        size_t proven = 0;

        for (size_t k = 0; k < o->analysis.units.n; k++)
            proven += !units_of(&o->analysis)[k].reason;
        CHECK(proven == o->analysis.moved_frames.n, "(%s: %zu functions, %zu frames)", o->path, proven,
              o->analysis.moved_frames.n);
        for (size_t k = 0; k < o->analysis.moved_frames.n; k++)
            check_frame(p, o, &frames[k], table, search.count);
        n += o->analysis.moved_frames.n;
    }
    CHECK(n == search.count, "(%zu, in the table %u)", n, search.count);
    free(table);
}
