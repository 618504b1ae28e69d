/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/analysis.c: opens an analysis, and finds what is in it; analysis/analysis.h has the format.
 *
 * Order of checks: the header's bounds, its checksum, the directory, then for each table its checksum and
 * its entries (analysis/check.c).
 */
#include "rimf/analysis/analysis.h"

#include "rimf/base/base.h"

#include <elf.h>
#include <errno.h> /* numbers only */

_Static_assert(sizeof(struct analysis_header) == 168, "a file format");
_Static_assert(sizeof(struct analysis_table) == 32, "a file format");
_Static_assert(sizeof(struct analysis_segment) == 16, "a file format");
_Static_assert(sizeof(struct analysis_unit) == 12, "a file format");
_Static_assert(sizeof(struct analysis_call) == 8, "a file format");
_Static_assert(sizeof(struct analysis_reference) == 8, "a file format");
_Static_assert(sizeof(struct analysis_jump_table) == 8, "a file format");
_Static_assert(sizeof(struct analysis_frame) == 8, "a file format");
_Static_assert(sizeof(struct analysis_frame_fix) == 8, "a file format");
_Static_assert(sizeof(struct analysis_branch) == 4, "a file format");
_Static_assert(sizeof(struct analysis_fixed) == 8, "a file format");

/* ---- header and directory -------------------------------------------------- */

static size_t padded(uint64_t size)
{
    return (size + 7) & ~(size_t)7;
}

uint64_t analysis_header_checksum(const struct analysis_header *header)
{
    size_t before = offsetof(struct analysis_header, checksum), after = before + sizeof(uint64_t);
    uint64_t hash = rimf_hash_more(rimf_mix(0, header->header_size), header, before);

    return rimf_hash_more(hash, (const uint8_t *)header + after, header->header_size - after);
}

static const char *check_header(const struct analysis_header *header, size_t size)
{
    if (size < sizeof *header || memcmp(header->magic, ANALYSIS_MAGIC, sizeof header->magic) != 0)
        return "it is no analysis";
    if (header->version != ANALYSIS_VERSION)
        return "it is of another version of the format";
    if (header->size != size || size > ANALYSIS_SIZE_MAX)
        return "it is cut short, or longer than it says";
    if (header->n_tables > ANALYSIS_TABLES_MAX || header->build_id_size > ANALYSIS_BUILD_ID_MAX ||
        header->header_size != sizeof *header + header->n_tables * sizeof(struct analysis_table) ||
        header->header_size > size)
        return "its header is damaged";
    if (header->checksum != analysis_header_checksum(header))
        return "its header has a wrong checksum";
    for (size_t i = header->build_id_size; i < ANALYSIS_BUILD_ID_MAX; i++)
        if (header->build_id[i])
            return "its build-id has no end";
    if (header->flags & ~(uint32_t)ANALYSIS_FLAGS)
        return "it says of its object what cannot be";
    if ((uint64_t)header->frames_start + header->frames_size > UINT32_MAX ||
        (!header->frames_size && header->frames_start))
        return "its unwinding table lies nowhere";
    return NULL;
}

static uint32_t entry_size(uint32_t kind)
{
    static const uint8_t sizes[ANALYSIS_KINDS] = {
        0,
        sizeof(struct analysis_segment),
        sizeof(struct analysis_unit),
        sizeof(struct analysis_call),
        sizeof(struct analysis_reference),
        sizeof(struct analysis_jump_table),
        sizeof(struct analysis_frame),
        sizeof(struct analysis_frame_fix),
        sizeof(struct analysis_branch),
        sizeof(struct analysis_fixed),
        sizeof(uint64_t),
        sizeof(Elf64_Sym),
        1,
        1,
    };

    return kind < ANALYSIS_KINDS ? sizes[kind] : 0;
}

/* The tables are adjacent, and fill the file. */
static const char *check_directory(const struct analysis_header *header,
                                   const struct analysis_table **found)
{
    uint64_t at = header->header_size;

    for (uint32_t i = 0; i < header->n_tables; i++) {
        const struct analysis_table *table = (const struct analysis_table *)(header + 1) + i;

        if (table->offset != at || !table->entry_size || table->entry_size > 4096 ||
            table->count > (header->size - at) / table->entry_size ||
            padded(table->count * table->entry_size) > header->size - at)
            return "a table lies outside it";
        at += padded(table->count * table->entry_size);
        if (!table->kind || table->kind >= ANALYSIS_KINDS)
            continue;
        if (found[table->kind] || table->entry_size != entry_size(table->kind))
            return "a table has entries of another size, or is there twice";
        found[table->kind] = table;
    }
    if (at != header->size)
        return "bytes of it belong to no table";
    return NULL;
}

int analysis_symbols(const struct analysis *s, struct analysis_symbols *out)
{
    const struct analysis_table *found[ANALYSIS_KINDS] = {NULL};
    const struct analysis_table *symbols, *names;

    if (check_directory(s->header, found))
        return 0;
    symbols = found[ANALYSIS_SYMBOLS];
    names = found[ANALYSIS_NAMES];
    if (!symbols || !names || !names->count)
        return 0;
    *out = (struct analysis_symbols){(const Elf64_Sym *)((const char *)s->header + symbols->offset),
                                     (const char *)s->header + names->offset, symbols->count, names->count,
                                     analysis_first_movable(s)};
    return !out->names[names->count - 1];
}

static int is_whole(const struct analysis_header *header, const struct analysis_table *table)
{
    return table->checksum == rimf_hash((const uint8_t *)header + table->offset,
                                           padded(table->count * table->entry_size));
}

const char *analysis_path_of(const struct analysis *s)
{
    const struct analysis_table *found[ANALYSIS_KINDS] = {NULL}, *table;
    const char *path;

    if (check_directory(s->header, found) || !(table = found[ANALYSIS_PATH]) || !table->count ||
        !is_whole(s->header, table))
        return NULL;
    path = (const char *)s->header + table->offset;
    return path[table->count - 1] ? NULL : path;
}

/* ---- opening ------------------------------------------------------------------- */

/* Sets the view's pointer and count for a table, if its checksum is right. */
static const char *take_table(const struct analysis_header *header, const struct analysis_table *table,
                              const void **entries, size_t *count)
{
    if (!table)
        return "a table is missing";
    if (!is_whole(header, table))
        return "a table has a wrong checksum";
    *entries = (const uint8_t *)header + table->offset;
    *count = table->count;
    return NULL;
}

/* Checks tables that are not read here. */
static const char *check_rest(const struct analysis_header *header)
{
    const struct analysis_table *table = (const struct analysis_table *)(header + 1);

    for (size_t i = 0; i < header->n_tables; i++)
        if (!is_whole(header, &table[i]))
            return "a table has a wrong checksum";
    return NULL;
}

static const char *open_tables(struct analysis *s, const struct analysis_table **found,
                               uint32_t wanted)
{
    const struct {
        uint32_t kind;
        const void **entries;
        size_t *count;
    } tables[] = { /* each table after those that it is compared with */
        {ANALYSIS_SEGMENTS, (const void **)&s->segments, &s->n_segments},
        {ANALYSIS_UNITS, (const void **)&s->units, &s->n_units},
        {ANALYSIS_CALLS, (const void **)&s->calls, &s->n_calls},
        {ANALYSIS_REFERENCES, (const void **)&s->references, &s->n_references},
        {ANALYSIS_JUMP_TABLES, (const void **)&s->jump_tables, &s->n_jump_tables},
        {ANALYSIS_FRAME_FIXES, (const void **)&s->frame_fixes, &s->n_frame_fixes},
        {ANALYSIS_FRAMES, (const void **)&s->frames, &s->n_frames},
        {ANALYSIS_BRANCHES, (const void **)&s->branches, &s->n_branches},
        {ANALYSIS_FIXED_CODE, (const void **)&s->fixed, &s->n_fixed},
    };

    for (size_t i = 0; i < RIMF_COUNT(tables); i++) {
        const char *wrong;

        if (!(wanted & ANALYSIS_WANT(tables[i].kind)))
            continue;
        wrong = take_table(s->header, found[tables[i].kind], tables[i].entries, tables[i].count);
        if (!wrong)
            wrong = analysis_check(s, tables[i].kind);
        if (wrong)
            return wrong;
        s->opened |= ANALYSIS_WANT(tables[i].kind);
    }
    return wanted == ANALYSIS_WANT_WHOLE ? check_rest(s->header) : NULL;
}

static const char *open_more(struct analysis *s, const struct analysis_table **found,
                             uint32_t wanted)
{
    const char *wrong;
    int checked; /* calls, before */

    wanted |= ANALYSIS_WANT(ANALYSIS_SEGMENTS);
    if (wanted & ANALYSIS_WANT(ANALYSIS_FRAMES))
        wanted |= ANALYSIS_WANT(ANALYSIS_UNITS) | ANALYSIS_WANT(ANALYSIS_FRAME_FIXES);
    if (wanted & (ANALYSIS_WANT(ANALYSIS_REFERENCES) | ANALYSIS_WANT(ANALYSIS_BRANCHES)))
        wanted |= ANALYSIS_WANT(ANALYSIS_UNITS);
    wanted &= ~s->opened;
    checked = s->opened & ANALYSIS_WANT(ANALYSIS_CALLS) && wanted & ANALYSIS_WANT(ANALYSIS_UNITS);
    wrong = open_tables(s, found, wanted);
    if (!wrong && checked) /* without units */
        wrong = analysis_check(s, ANALYSIS_CALLS);
    s->opened |= wanted;
    return wrong;
}

static int result(struct analysis *s, const char *wrong, const char **why)
{
    if (!wrong)
        return 0;
    memset(s, 0, sizeof *s);
    *why = wrong;
    return -EINVAL;
}

int analysis_open(struct analysis *s, const void *bytes, size_t size, uint32_t wanted,
                 const char **why)
{
    const struct analysis_table *found[ANALYSIS_KINDS] = {NULL};
    const char *wrong = NULL;

    memset(s, 0, sizeof *s);
    if ((uintptr_t)bytes % 8 != 0)
        wrong = "it is not aligned in memory";
    s->header = bytes;
    if (!wrong)
        wrong = check_header(s->header, size);
    if (!wrong)
        wrong = check_directory(s->header, found);
    if (!wrong)
        wrong = open_more(s, found, wanted);
    return result(s, wrong, why);
}

int analysis_open_more(struct analysis *s, uint32_t wanted, const char **why)
{
    const struct analysis_table *found[ANALYSIS_KINDS] = {NULL};
    const char *wrong = check_directory(s->header, found);

    return result(s, wrong ? wrong : open_more(s, found, wanted), why);
}

/* ---- finding -------------------------------------------------------------------- */

size_t analysis_first_from(const void *entries, size_t n, size_t stride, uint32_t address)
{
    return RIMF_BISECT(i, n, *(const uint32_t *)((const uint8_t *)entries + i * stride) < address);
}

uint32_t analysis_first_movable(const struct analysis *s)
{
    size_t i = 0;

    while (i < s->n_units && s->units[i].reason != ANALYSIS_PROVEN)
        i++;
    return i < s->n_units ? s->units[i].start : UINT32_MAX;
}

const struct analysis_unit *analysis_unit_at(const struct analysis *s, uint32_t address)
{
    size_t i = ANALYSIS_FROM(s, units, address);

    if (i < s->n_units && s->units[i].start == address)
        return &s->units[i];
    return i && address - s->units[i - 1].start < s->units[i - 1].size ? &s->units[i - 1] : NULL;
}

int analysis_is_of(const struct analysis *s, const void *build_id, size_t size)
{
    return size && size == s->header->build_id_size &&
           memcmp(build_id, s->header->build_id, size) == 0;
}

/* ---- reasons ------------------------------------------------------------------------ */

const char *analysis_reason_words(enum analysis_reason reason)
{
    static const char *const words[ANALYSIS_REASONS] = {
        [ANALYSIS_PROVEN] = "proven",
        [ANALYSIS_UNDECODABLE] = "bytes that are no instruction",
        [ANALYSIS_IMPLAUSIBLE] = "an instruction that no compiler emits",
        [ANALYSIS_OVERRUN] = "its last instruction ends behind its end",
        [ANALYSIS_ADDRESS_SIZE] = "an address of 32 bits relative to RIP",
        [ANALYSIS_RELOCATED] = "a relocation changes it",
        [ANALYSIS_ENTERED] = "a branch leads into the middle of an instruction",
        [ANALYSIS_POINTED] = "a pointer, symbol or landing pad into the middle of an instruction",
        [ANALYSIS_READ] = "it is read as data",
        [ANALYSIS_OUTSIDE] = "an operand outside the object",
        [ANALYSIS_BASE] = "it computes with its own address (large code model)",
        [ANALYSIS_LABEL_TAKEN] = "the address of a place inside it is taken",
        [ANALYSIS_TAKES_LABEL] = "it takes the address of a place inside a function",
        [ANALYSIS_FALLS] = "it runs on into code that stays",
        [ANALYSIS_SHORT_BRANCH] = "a short branch into code that stays",
        [ANALYSIS_FRAME_ODD] = "its unwinding description cannot be made one of moved code",
        [ANALYSIS_KEPT] = "data keeps a place inside it, such as a return address",
        [ANALYSIS_BOUNDED] = "its section has bounds that code may ask for",
    };

    return reason < ANALYSIS_REASONS ? words[reason] : "unknown";
}
