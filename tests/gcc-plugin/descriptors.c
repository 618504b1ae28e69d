/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "descriptors.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "mvld/descriptor.h"

#define MAX_FUNCTIONS 4096

static struct found_function functions[MAX_FUNCTIONS];
static unsigned n_functions, n_sites, n_reads, n_inlines;
static struct {
    const uint8_t *site;
    const void *function;
    const char *name;
} inlines[MAX_FUNCTIONS];
static const uint8_t *switch_tables[64][2];
static unsigned n_switch_tables;

struct object {
    const char *name;
    uintptr_t base;
    const ElfW(Phdr) *phdr;
    unsigned n_phdr;
};

static void bad(const struct object *o, const char *what, const void *where)
{
    fprintf(stderr, "%s: %s at %p (0x%zx)\n", o->name, what, where, (uintptr_t)where - o->base);
    exit(1);
}

static int inside(const struct object *o, const void *p, size_t size, unsigned flags)
{
    uintptr_t a = (uintptr_t)p;
    for (unsigned i = 0; i < o->n_phdr; i++) {
        const ElfW(Phdr) *ph = &o->phdr[i];
        uintptr_t at = o->base + ph->p_vaddr;
        if (ph->p_type == PT_LOAD && a >= at && a + size <= at + ph->p_memsz &&
            (ph->p_flags & flags) == flags)
            return 1;
    }
    return 0;
}

static const void *to(const struct object *o, const int32_t *field, unsigned flags)
{
    const void *p = (const char *)field + *field;
    if (!inside(o, p, 1, flags))
        bad(o, "distance leads out of the object", field);
    return p;
}

static void *slot(const struct object *o, const int32_t *field)
{
    return *(void *const *)to(o, field, PF_R);
}

/* The thing itself, or what the slot says. */
static void *named(const struct object *o, const int32_t *field, int direct)
{
    return direct ? (void *)to(o, field, PF_R) : slot(o, field);
}

static void need_word(const struct object *o, const uint8_t *p, size_t n, const char *what)
{
    if (((uintptr_t)p & 7) + n > 8)
        bad(o, what, p);
}

static void check_name(const struct object *o, const char *record, uint32_t size, uint16_t name)
{
    if (name >= size || !memchr(record + name, 0, size - name))
        bad(o, "name outside its record", record);
}

/* An inline call: a jump to what calls the function, or a branch to an arm, in one word; its variants are
 * places of the caller. */
static void check_inline(const struct object *o, const struct multiverse_function *f)
{
    const uint8_t *pad = to(o, &f->pad, PF_X);
    const struct multiverse_variant *v = (const void *)(f + 1);
    int32_t rel;

    unsigned size = f->flags & MULTIVERSE_FUNCTION_BRANCH ? 6 : 5;

    need_word(o, pad, size, "inline call across words");
    memcpy(&rel, pad + size - 4, 4);
    if (size == 5 ? *pad != 0xe9 : *pad != 0x0f || (pad[1] & 0xfe) != 0x84)
        bad(o, "inline call is no jump", pad);
    if (pad + size + rel != to(o, &f->body, PF_X))
        bad(o, "inline call is no jump to the generic one", pad);
    if (!f->n_variants)
        bad(o, "inline call without an arm", f);
    for (unsigned i = 0; i < f->n_variants; i++)
        if (v[i].name || v[i].body_size)
            bad(o, "arm with a name or size", &v[i]);
    inlines[n_inlines].site = pad;
    inlines[n_inlines].name = (const char *)f + f->name;
    inlines[n_inlines++].function = named(o, &f->pointer, f->flags & MULTIVERSE_FUNCTION_DIRECT);
}

static void add_function(const struct object *o, const struct multiverse_function *f)
{
    size_t fixed = sizeof *f + f->n_variants * sizeof(struct multiverse_variant) +
                   f->n_guards * sizeof(struct multiverse_guard);
    static const uint8_t nop[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    const struct multiverse_variant *v = (const void *)(f + 1);
    const struct multiverse_guard *g = (const void *)(v + f->n_variants);

    if (f->size % 8 || f->size < fixed)
        bad(o, "function record of wrong size", f);
    check_name(o, (const char *)f, f->size, f->name);
    int is_inline = f->flags & MULTIVERSE_FUNCTION_INLINE;
    struct found_function ignored, *out = is_inline ? &ignored : &functions[n_functions++];
    if (n_functions == MAX_FUNCTIONS || n_inlines == MAX_FUNCTIONS)
        bad(o, "too many functions for this reader", f);
    if (is_inline)
        check_inline(o, f);
    out->name = (const char *)f + f->name;
    out->record = f;
    out->body = (void *)to(o, &f->body, PF_X);
    out->pad = (void *)to(o, &f->pad, PF_X);
    if (!is_inline && memcmp(out->pad, nop, 5))
        bad(o, "pad is not a 5-byte NOP", out->pad);
    need_word(o, out->pad, 5, "pad across words");
    if (!is_inline && (uintptr_t)out->pad - (uintptr_t)out->body > 64)
        bad(o, "pad is not at the entry", out->pad);
    out->pointer = f->flags & MULTIVERSE_FUNCTION_POINTER ? named(o, &f->pointer, f->flags & MULTIVERSE_FUNCTION_DIRECT) : NULL;
    out->n_variants = f->n_variants;
    for (unsigned i = 0; i < f->n_variants; i++) {
        to(o, &v[i].body, PF_X);
        if (v[i].first_guard + v[i].n_guards > f->n_guards || !v[i].n_guards)
            bad(o, "variant with wrong guards", &v[i]);
        if (v[i].name)
            check_name(o, (const char *)f, f->size, v[i].name);
        if (v[i].body_size > 1 << 20)
            bad(o, "variant of strange size", &v[i]);
    }
    for (unsigned i = 0; i < f->n_guards; i++)
        if (!named(o, &g[i].slot, g[i].flags & MULTIVERSE_SWITCH_DIRECT) || !g[i].width || g[i].width > 8 || (g[i].width & (g[i].width - 1)))
            bad(o, "guard with a strange switch", &g[i]);
}

/* Where the instruction at a site leads. */
static const uint8_t *destination(const struct object *o, const uint8_t *p)
{
    int32_t rel;
    size_t length = 5;
    const uint8_t *at = p;
    if (p[0] == 0xeb) {
        if (p[2] != 0xcc || p[3] != 0xcc || p[4] != 0xcc)
            bad(o, "short jump without padding", p);
        need_word(o, p, 5, "site across words");
        return p + 2 + (int8_t)p[1];
    }
    if (p[0] == 0xff && (p[1] == 0x15 || p[1] == 0x25)) {
        need_word(o, p, 6, "site across words");
        memcpy(&rel, p + 2, 4);
        return *(const uint8_t *const *)(p + 6 + rel);
    }
    if (p[0] == 0x67 || p[0] == 0x40 || p[0] == 0x90) {
        at++;
        length++;
    }
    if (at[0] != 0xe8 && at[0] != 0xe9)
        bad(o, "site is no call", p);
    need_word(o, p, length, "site across words");
    memcpy(&rel, at + 1, 4);
    return at + 5 + rel;
}

/* Through a PLT entry: [endbr64] [bnd] jmp *slot(%rip). */
static const uint8_t *through_plt(const uint8_t *p)
{
    static const uint8_t endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    const uint8_t *q = p;
    int32_t rel;
    if (!memcmp(q, endbr, 4))
        q += 4;
    if (*q == 0xf2)
        q++;
    if (q[0] != 0xff || q[1] != 0x25)
        return p;
    memcpy(&rel, q + 2, 4);
    return *(const uint8_t *const *)(q + 6 + rel);
}

/* One of the loads that descriptor.h lists. */
static int is_read(const uint8_t *p)
{
    while (*p == 0x3e)
        p++;
    p += (*p & 0xf0) == 0x40;
    return *p == 0x8b || (*p == 0x0f && (p[1] & 0xf6) == 0xb6);
}

static void add_site(const struct object *o, const struct multiverse_callsite *c)
{
    const uint8_t *p = to(o, &c->site, PF_X), *callee, *goal;
    if (is_read(p)) {
        n_reads++;
        return;
    }
    n_sites++;
    callee = inside(o, (const char *)&c->callee + c->callee, 1, PF_X) ? to(o, &c->callee, PF_X)
                                                                      : slot(o, &c->callee);
    goal = destination(o, p);
    /* A PLT entry may still be unbound; then only its being one can be seen. */
    if (goal != callee && through_plt(goal) != callee && through_plt(goal) == goal)
        bad(o, "site does not lead to its callee", p);
    for (unsigned i = 0; i < n_functions; i++)
        if (functions[i].body == callee)
            functions[i].n_sites++;
}

static void read_tables(const struct object *o, const struct multiverse_note *note, int sites)
{
    const uint8_t *p, *end;
    if (note->version != MULTIVERSE_VERSION)
        bad(o, "note of another version", note);
    if (sites) {
        p = (const uint8_t *)&note->callsites + note->callsites;
        end = (const uint8_t *)&note->callsites_end + note->callsites_end;
        for (; p < end; p += sizeof(struct multiverse_callsite))
            add_site(o, (const void *)p);
        if (p != end)
            bad(o, "call-site table of wrong size", p);
        return;
    }
    p = (const uint8_t *)&note->functions + note->functions;
    end = (const uint8_t *)&note->functions_end + note->functions_end;
    for (; p < end; p += ((const struct multiverse_function *)p)->size) {
        if (!inside(o, p, sizeof(struct multiverse_function), PF_R) || (uintptr_t)p & 7)
            bad(o, "function record outside its object", p);
        add_function(o, (const void *)p);
    }
    if (p != end)
        bad(o, "function table of wrong size", p);
    p = (const uint8_t *)&note->switches + note->switches;
    end = (const uint8_t *)&note->switches_end + note->switches_end;
    switch_tables[n_switch_tables][0] = p;
    switch_tables[n_switch_tables++][1] = end;
    for (; p < end; p += ((const struct multiverse_switch *)p)->size) {
        const struct multiverse_switch *s = (const void *)p;
        if (!inside(o, p, sizeof *s, PF_R) || (uintptr_t)p & 7 || s->size % 8 || s->size < sizeof *s)
            bad(o, "switch record outside its object", p);
        check_name(o, (const char *)p, s->size, s->name);
        if (!named(o, &s->slot, s->flags & MULTIVERSE_SWITCH_DIRECT))
            bad(o, "switch without an address", p);
    }
    if (p != end)
        bad(o, "switch table of wrong size", p);
}

static int read_object(struct dl_phdr_info *info, size_t size, void *sites)
{
    struct object o = {info->dlpi_name, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
    (void)size;
    for (unsigned i = 0; i < o.n_phdr; i++) {
        if (o.phdr[i].p_type != PT_NOTE)
            continue;
        const uint8_t *p = (const uint8_t *)o.base + o.phdr[i].p_vaddr;
        const uint8_t *end = p + o.phdr[i].p_memsz;
        while (p + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *n = (const void *)p;
            /* A gap before a note of alignment 8; some linkers put all notes into
             * one segment of that alignment. */
            if (!n->n_namesz) {
                p += 4;
                continue;
            }
            const char *name = (const char *)(n + 1);
            const uint8_t *desc = (const uint8_t *)name + ((n->n_namesz + 3) & ~3u);
            if (n->n_type == MULTIVERSE_NOTE_TABLES && n->n_namesz == sizeof MULTIVERSE_NOTE_NAME &&
                !memcmp(name, MULTIVERSE_NOTE_NAME, n->n_namesz)) {
                read_tables(&o, (const void *)desc, *(int *)sites);
                return 0; /* every unit's note says the same */
            }
            p = desc + ((n->n_descsz + 3) & ~3u);
        }
    }
    return 0;
}

void descriptors_read(void)
{
    int sites = 0;
    n_functions = n_sites = n_reads = n_inlines = n_switch_tables = 0;
    dl_iterate_phdr(read_object, &sites);
    sites = 1;
    dl_iterate_phdr(read_object, &sites);
}

const struct found_function *find_function(const void *address)
{
    for (unsigned i = 0; i < n_functions; i++)
        if (functions[i].body == address || functions[i].pointer == address)
            return &functions[i];
    return NULL;
}

const struct found_function *find_named(const char *name)
{
    for (unsigned i = 0; i < n_functions; i++)
        if (!strcmp(functions[i].name, name))
            return &functions[i];
    return NULL;
}

/* As a slot or directly. */
static const void *leads_to(const int32_t *field, unsigned flags, unsigned offset)
{
    const char *at = (const char *)field + *field;
    return flags & MULTIVERSE_SWITCH_DIRECT ? at : *(char *const *)at + offset;
}

static int holds(const struct multiverse_guard *g)
{
    const void *p = leads_to(&g->slot, g->flags, g->offset);
    uint64_t v = 0;
    memcpy(&v, p, g->width);
    if (!(g->flags & MULTIVERSE_SWITCH_SIGNED))
        return v >= g->low && v <= g->high;
    int64_t s = (int64_t)(v << (64 - 8 * g->width)) >> (64 - 8 * g->width);
    return s >= (int64_t)g->low && s <= (int64_t)g->high;
}

static const struct multiverse_variant *choose(const struct found_function *f)
{
    const struct multiverse_function *r = f->record;
    const struct multiverse_variant *v = (const void *)(r + 1), *best = NULL;
    const struct multiverse_guard *g = (const void *)(v + r->n_variants);
    for (unsigned i = 0; i < r->n_variants; i++) {
        int all = 1;
        for (unsigned k = 0; k < v[i].n_guards; k++)
            all &= holds(&g[v[i].first_guard + k]);
        if (all && (!best || v[i].n_guards > best->n_guards))
            best = &v[i];
    }
    return best;
}

void *variant_of(const void *function)
{
    const struct found_function *f = find_function(function);
    if (!f) {
        fprintf(stderr, "%p is no variation point\n", function);
        exit(1);
    }
    const struct multiverse_variant *v = choose(f);
    return v ? (char *)&v->body + v->body : f->body;
}

const char *variant_name(const void *function)
{
    const struct found_function *f = find_function(function);
    const struct multiverse_variant *v = f ? choose(f) : NULL;
    return v ? (const char *)f->record + v->name : "";
}

struct found_variant variant_at(const struct found_function *f, unsigned i)
{
    const struct multiverse_function *r = f->record;
    const struct multiverse_variant *v = (const struct multiverse_variant *)(r + 1) + i;
    struct found_variant out = {(const char *)r + v->name, (char *)&v->body + v->body,
                                v->body_size, v->n_guards};
    return out;
}

unsigned count_bodies(const struct found_function *f)
{
    unsigned n = 0;
    for (unsigned i = 0; i < f->n_variants; i++) {
        unsigned k = 0;
        while (k < i && variant_at(f, k).body != variant_at(f, i).body)
            k++;
        n += k == i;
    }
    return n;
}

unsigned count_records(void) { return n_functions; }
unsigned count_sites(void) { return n_sites; }
unsigned count_reads(void) { return n_reads; }

const unsigned char *inline_call(const void *function, unsigned number)
{
    for (unsigned i = 0; i < n_inlines; i++)
        if ((!function || inlines[i].function == function) && !number--)
            return inlines[i].site;
    return NULL;
}

const char *inline_name(unsigned number)
{
    return number < n_inlines ? inlines[number].name : NULL;
}

int find_switch(const void *address, unsigned *width, unsigned *flags, const char **name)
{
    int n = 0;
    for (unsigned t = 0; t < n_switch_tables; t++)
        for (const uint8_t *p = switch_tables[t][0]; p < switch_tables[t][1];
             p += ((const struct multiverse_switch *)p)->size) {
            const struct multiverse_switch *s = (const void *)p;
            if (leads_to(&s->slot, s->flags, s->offset) != address)
                continue;
            *width = s->width;
            *flags = n ? *flags | s->flags : s->flags;
            *name = (const char *)p + s->name;
            n++;
        }
    return n;
}
