/* SPDX-License-Identifier: MIT
 *
 * descriptors.c: walks note, switches, functions and call sites of a file.
 *
 * The run time (passes/multiverse) walks the same bytes in memory, where every slot has been
 * filled.  Here nothing is relocated: a slot is followed through the relocation that will fill it,
 * and users want to know *where* a file is damaged.  So this is a separate reader; both follow
 * include/mvld/descriptor.h.
 */
#include "tools/show/descriptors.h"
#include "tools/common/tools.h"

#include "mvld/descriptor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* "offset 0x…: <what>", for the address of the error. */
__attribute__((format(printf, 3, 4)))
static int damaged(struct elf_file *f, uint64_t address, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    int64_t offset = elf_offset(f, address);
    if (offset < 0)
        return elf_fail(f, "address 0x%" PRIx64 ": %s", address, what);
    return elf_fail(f, "offset 0x%" PRIx64 ": %s", (uint64_t)offset, what);
}

/* The address at a 32-bit distance from `field`. */
static uint64_t follow(uint64_t field, int32_t distance)
{
    return field + (uint64_t)(int64_t)distance;
}

static int follow_slot(struct elf_file *f, uint64_t field, int32_t distance,
                       struct elf_target *out)
{
    uint64_t slot = follow(field, distance);
    if (elf_slot(f, slot, out))
        return damaged(f, field, "the slot at address 0x%" PRIx64 " is not in the file", slot);
    return 0;
}

/* Follows a distance to a thing of this file, or to the slot with its address. */
static int follow_either(struct elf_file *f, uint64_t field, int32_t distance, int direct,
                         uint64_t offset, struct elf_target *out)
{
    if (!direct) {
        if (follow_slot(f, field, distance, out))
            return -1;
        out->address += offset; /* an offset from the symbol, if that is another object's */
        return 0;
    }
    *out = (struct elf_target){.address = follow(field, distance), .defined = 1};
    return 0;
}

static int follow_code(struct elf_file *f, uint64_t field, int32_t distance, uint64_t size,
                       uint64_t *out)
{
    *out = follow(field, distance);
    if (!elf_file_holds(f, *out, size, PF_X) || elf_offset(f, *out) < 0)
        return damaged(f, field, "%" PRIu64 " bytes at address 0x%" PRIx64 " are not code", size,
                       *out);
    return 0;
}

static int valid_width(unsigned width)
{
    return width == 1 || width == 2 || width == 4 || width == 8;
}

/* ---- switches ------------------------------------------------------------------ */

static int read_switch(struct elf_file *f, struct descriptors *d, uint64_t at, uint64_t size)
{
    struct multiverse_switch r;
    if (elf_read(f, at, &r, sizeof r))
        return damaged(f, at, "a switch record is not in the file");
    if (!valid_width(r.width))
        return damaged(f, at + 4, "a switch of %u bytes: only 1, 2, 4, 8 can be", r.width);
    struct mv_switch s = {.record = at, .width = r.width, .flags = r.flags};
    s.name = r.name < sizeof r ? NULL : elf_file_string(f, at + r.name, at + size);
    if (!s.name)
        return damaged(f, at + 6, "the switch's name is not inside its record");
    if (follow_either(f, at + offsetof(struct multiverse_switch, slot), r.slot,
                      r.flags & MULTIVERSE_SWITCH_DIRECT, r.offset, &s.target))
        return -1;
    d->switches = must_grow(d->switches, d->n_switches + 1, sizeof s);
    d->switches[d->n_switches++] = s;
    return 0;
}

/* Sorts records of one switch together, the defining one first. */
static int by_switch(const void *a, const void *b)
{
    const struct mv_switch *x = a, *y = b;
    if (x->target.defined != y->target.defined)
        return x->target.defined ? -1 : 1;
    if (x->target.address != y->target.address)
        return x->target.address < y->target.address ? -1 : 1;
    int names = strcmp(x->name, y->name);
    int defines = (y->flags & MULTIVERSE_SWITCH_DEFINED) - (x->flags & MULTIVERSE_SWITCH_DEFINED);
    return names ? names : defines;
}

/* Units that only use a switch also emit a record: keep one. */
static void merge_switches(struct descriptors *d)
{
    size_t n = 0;
    if (!d->n_switches)
        return;
    qsort(d->switches, d->n_switches, sizeof *d->switches, by_switch);
    for (size_t i = 1; i < d->n_switches; i++) {
        const struct mv_switch *a = &d->switches[n], *b = &d->switches[i];
        if (!same_target(&a->target, &b->target) || strcmp(a->name, b->name))
            d->switches[++n] = *b;
    }
    d->n_switches = n + 1;
}

/* ---- functions ------------------------------------------------------------------ */

static int read_guards(struct elf_file *f, struct mv_function *fn, uint64_t at)
{
    for (size_t i = 0; i < fn->n_guards; i++, at += sizeof(struct multiverse_guard)) {
        struct multiverse_guard r;
        if (elf_read(f, at, &r, sizeof r))
            return damaged(f, at, "a guard is not in the file");
        if (!valid_width(r.width))
            return damaged(f, at + 4, "a guard of %u bytes: only 1, 2, 4, 8 can be", r.width);
        fn->guards[i] = (struct mv_guard){
            .width = r.width, .flags = r.flags, .low = r.low, .high = r.high};
        if (follow_either(f, at, r.slot, r.flags & MULTIVERSE_SWITCH_DIRECT, r.offset,
                          &fn->guards[i].target))
            return -1;
    }
    return 0;
}

static int read_variants(struct elf_file *f, struct mv_function *fn, uint64_t at, uint64_t end)
{
    for (size_t i = 0; i < fn->n_variants; i++, at += sizeof(struct multiverse_variant)) {
        struct multiverse_variant r;
        struct mv_variant *v = &fn->variants[i];
        if (elf_read(f, at, &r, sizeof r))
            return damaged(f, at, "a variant is not in the file");
        if ((size_t)r.first_guard + r.n_guards > fn->n_guards)
            return damaged(f, at + 8, "guards %u to %u of a function that has %zu", r.first_guard,
                           r.first_guard + r.n_guards, fn->n_guards);
        *v = (struct mv_variant){
            .size = r.body_size, .first_guard = r.first_guard, .n_guards = r.n_guards};
        if (r.name) {
            v->name = r.name < sizeof(struct multiverse_function)
                          ? NULL
                          : elf_file_string(f, fn->record + r.name, end);
            if (!v->name)
                return damaged(f, at + 12, "the variant's name is not inside its record");
        }
        if (follow_code(f, at, r.body, r.body_size ? r.body_size : 1, &v->body))
            return -1;
    }
    return 0;
}

static int read_body(struct elf_file *f, struct mv_function *fn,
                     const struct multiverse_function *r)
{
    static const uint8_t nop[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00}; /* nopl 0(%rax,%rax,1) */
    uint64_t at = fn->record;
    uint8_t bytes[6];
    int branches = fn->is_inline && r->flags & MULTIVERSE_FUNCTION_BRANCH;
    size_t size = branches ? 6 : sizeof nop;

    if (follow_code(f, at + offsetof(struct multiverse_function, body), r->body, 1, &fn->body))
        return -1;
    if ((fn->is_pointer || fn->is_inline) &&
        follow_either(f, at + offsetof(struct multiverse_function, pointer), r->pointer,
                      r->flags & MULTIVERSE_FUNCTION_DIRECT, 0, &fn->pointer))
        return -1;
    if (fn->is_pointer)
        return 0;
    uint64_t field = at + offsetof(struct multiverse_function, pad);
    if (follow_code(f, field, r->pad, size, &fn->pad))
        return -1;
    if (elf_read(f, fn->pad, bytes, size) ||
        (branches ? bytes[0] != 0x0f || (bytes[1] & 0xfe) != 0x84
         : fn->is_inline ? *bytes != 0xe9 : memcmp(bytes, nop, sizeof nop)))
        return damaged(f, field, "there is no %zu-byte %s at address 0x%" PRIx64, size,
                       branches ? "branch" : fn->is_inline ? "jump" : "NOP", fn->pad);
    return 0;
}

static int read_function(struct elf_file *f, struct descriptors *d, uint64_t at, uint64_t size)
{
    struct multiverse_function r;
    if (size < sizeof r || elf_read(f, at, &r, sizeof r))
        return damaged(f, at, "a function record is not in the file");
    uint64_t variants = at + sizeof r;
    uint64_t guards = variants + r.n_variants * sizeof(struct multiverse_variant);
    uint64_t names = guards + r.n_guards * sizeof(struct multiverse_guard);
    if (names > at + size)
        return damaged(f, at + 8, "%u variants and %u guards do not fit a record of %" PRIu64
                       " bytes", r.n_variants, r.n_guards, size);

    d->functions = must_grow(d->functions, d->n_functions + 1, sizeof *d->functions);
    struct mv_function *fn = &d->functions[d->n_functions++];
    *fn = (struct mv_function){.record = at, .n_variants = r.n_variants, .n_guards = r.n_guards,
                               .is_pointer = (r.flags & MULTIVERSE_FUNCTION_POINTER) != 0,
                               .is_inline = (r.flags & MULTIVERSE_FUNCTION_INLINE) != 0};
    d->n_inline += (size_t)fn->is_inline;
    fn->variants = must_alloc(r.n_variants, sizeof *fn->variants);
    fn->guards = must_alloc(r.n_guards, sizeof *fn->guards);
    fn->name = at + r.name < names ? NULL : elf_file_string(f, at + r.name, at + size);
    if (!fn->name)
        return damaged(f, at + 6, "the function's name is not inside its record");
    if (read_body(f, fn, &r) || read_variants(f, fn, variants, at + size))
        return -1;
    return read_guards(f, fn, guards);
}

/* Visits adjacent records, which begin with their size. */
static int each_record(struct elf_file *f, struct descriptors *d, const char *what,
                       uint64_t begin, uint64_t end, uint64_t minimum,
                       int (*read)(struct elf_file *, struct descriptors *, uint64_t, uint64_t))
{
    for (uint64_t at = begin; at < end;) {
        uint32_t size;
        if (end - at < minimum || elf_read(f, at, &size, sizeof size))
            return damaged(f, at, "%" PRIu64 " bytes are too few for a %s record", end - at, what);
        if (size < minimum || size % 8 || size > end - at)
            return damaged(f, at, "a %s record of %u bytes in a table with %" PRIu64 " left", what,
                           size, end - at);
        if (read(f, d, at, size))
            return -1;
        at += size;
    }
    return 0;
}

/* ---- call sites ------------------------------------------------------------------ */

/* Whom it names: a function or switch of this file is named by its distance, a member of another's
 * by its record. */
static int read_callee(struct elf_file *f, struct descriptors *d, uint64_t field, int32_t distance,
                       struct elf_target *out)
{
    uint64_t to = follow(field, distance);
    struct multiverse_switch r;
    if (to >= d->records && to < d->records_end) {
        if (elf_read(f, to, &r, sizeof r))
            return damaged(f, field, "the record at address 0x%" PRIx64 " is not in the file", to);
        return follow_either(f, to + offsetof(struct multiverse_switch, slot), r.slot,
                             r.flags & MULTIVERSE_SWITCH_DIRECT, r.offset, out);
    }
    int direct = elf_file_holds(f, to, 1, PF_X);
    for (size_t i = 0; i < d->n_switches; i++)
        direct |= d->switches[i].flags & MULTIVERSE_SWITCH_CONSTANT &&
                  d->switches[i].target.defined && d->switches[i].target.address == to;
    return follow_either(f, field, distance, direct, 0, out);
}

static int read_site(struct elf_file *f, struct descriptors *d, uint64_t at)
{
    struct multiverse_callsite r;
    struct mv_site s = {.record = at};
    uint8_t bytes[11];
    size_t n = sizeof bytes;

    if (elf_read(f, at, &r, sizeof r))
        return damaged(f, at, "a call site record is not in the file");
    if (follow_code(f, at, r.site, 5, &s.address) ||
        read_callee(f, d, at + offsetof(struct multiverse_callsite, callee), r.callee, &s.callee))
        return -1;
    while (n && elf_read(f, s.address, bytes, n))
        n--;
    s.instruction = instruction_decode(bytes, n, &s.length);
    s.one_word = s.length && s.address / 8 == (s.address + s.length - 1) / 8;
    d->sites[d->n_sites++] = s;
    return 0;
}

static int read_sites(struct elf_file *f, struct descriptors *d, uint64_t begin, uint64_t end)
{
    size_t n = (end - begin) / sizeof(struct multiverse_callsite);
    if ((end - begin) % sizeof(struct multiverse_callsite))
        return damaged(f, begin, "call sites take %" PRIu64 " bytes, no multiple of 8",
                       end - begin);
    d->sites = must_alloc(n, sizeof *d->sites);
    for (; begin < end; begin += sizeof(struct multiverse_callsite))
        if (read_site(f, d, begin))
            return -1;
    return 0;
}

/* ---- the note --------------------------------------------------------------------- */

struct tables {
    struct elf_file *f;
    struct descriptors *d;
    uint64_t begin[3], end[3]; /* functions, call sites, switches */
};

static int read_note(void *cookie, uint64_t desc, uint32_t size)
{
    static const char *const names[3] = {"functions", "call sites", "switches"};
    struct tables *t = cookie;
    struct multiverse_note note;
    int32_t distance[6];
    uint64_t begin[3], end[3];

    if (size < sizeof note || elf_read(t->f, desc, &note, sizeof note))
        return damaged(t->f, desc, "a multiverse note of %u bytes, not %zu", size, sizeof note);
    if (note.version != MULTIVERSE_VERSION)
        return damaged(t->f, desc, "descriptors of version %u; this mvld reads version %u",
                       note.version, MULTIVERSE_VERSION);
    memcpy(distance, &note.functions, sizeof distance);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t field = desc + 4 + 8 * i;
        begin[i] = follow(field, distance[2 * i]);
        end[i] = follow(field + 4, distance[2 * i + 1]);
        if (end[i] < begin[i])
            return damaged(t->f, field, "the table of %s ends before it begins", names[i]);
        if (end[i] > begin[i] && !elf_file_holds(t->f, begin[i], end[i] - begin[i], PF_R))
            return damaged(t->f, field, "the table of %s at address 0x%" PRIx64
                           " is not in the file", names[i], begin[i]);
        if (t->d->found && (begin[i] != t->begin[i] || end[i] != t->end[i]))
            return damaged(t->f, field, "two notes disagree where the table of %s is", names[i]);
        t->begin[i] = begin[i];
        t->end[i] = end[i];
    }
    if (!t->d->found)
        t->d->note = desc;
    t->d->found = 1;
    t->d->version = note.version;
    return 0;
}

int descriptors_read(struct elf_file *f, struct descriptors *d)
{
    struct tables t = {.f = f, .d = d};
    memset(d, 0, sizeof *d);
    if (elf_notes(f, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES, read_note, &t))
        return -1;
    if (!d->found)
        return 0;
    if (each_record(f, d, "switch", t.begin[2], t.end[2], sizeof(struct multiverse_switch),
                    read_switch) ||
        each_record(f, d, "function", t.begin[0], t.end[0], sizeof(struct multiverse_function),
                    read_function))
        return -1;
    merge_switches(d);
    d->records = t.begin[2];
    d->records_end = t.end[2];
    return read_sites(f, d, t.begin[1], t.end[1]);
}

void descriptors_free(struct descriptors *d)
{
    for (size_t i = 0; i < d->n_functions; i++) {
        free(d->functions[i].variants);
        free(d->functions[i].guards);
    }
    free(d->functions);
    free(d->switches);
    free(d->sites);
}

int same_target(const struct elf_target *a, const struct elf_target *b)
{
    if (a->defined && b->defined)
        return a->address == b->address;
    return a->symbol && b->symbol && !strcmp(a->symbol, b->symbol) && a->address == b->address;
}

const char *switch_name(const struct descriptors *d, const struct elf_target *t)
{
    for (size_t i = 0; i < d->n_switches; i++)
        if (same_target(&d->switches[i].target, t))
            return d->switches[i].name;
    return t->symbol;
}
