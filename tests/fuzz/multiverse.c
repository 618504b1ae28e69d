/* SPDX-License-Identifier: MIT
 *
 * Descriptors that a linker, a bug or an attacker spoiled: the engine gathers,
 * commits and reverts over an object whose note, tables and slots are a right
 * template changed by the input, three bytes a change (where, where, what).
 *
 * A failure is a read or write outside the object (guard pages, sanitizers), a
 * patch that lies outside its code or expects other bytes than are there, or
 * code that a revert does not restore.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "passes/multiverse/engine/engine.h"

#include "rimf/base/sys.h"

#define PAGE 4096u
/* The object: note and tables, code, slots, data; guards before and behind. */
enum { TABLES = 1, CODE, SLOTS, DATA, BEHIND };

static uint8_t *arena, template[BEHIND * PAGE];
static struct mvld_segment segments[3];
static struct mvld_object object;

/* ---- a template ------------------------------------------------------------- */

static uint8_t *at(unsigned page, unsigned offset)
{
    return arena + page * PAGE + offset;
}

static int32_t distance(const void *field, const void *target)
{
    return (int32_t)((const uint8_t *)target - (const uint8_t *)field);
}

static void slot(unsigned i, const void *target)
{
    memcpy(at(SLOTS, 8 * i), &target, sizeof target);
}

#define NOTE ((struct multiverse_note *)(void *)at(TABLES, 0))
#define SITES 64
#define SWITCHES 512
#define FUNCTIONS 1024
enum { SLOT_NARROW, SLOT_WIDE, SLOT_POINTER, SLOT_FIRST, SLOT_STUB };

static void make_note(unsigned sites_end, unsigned switches_end, unsigned functions_end)
{
    struct multiverse_note *n = NOTE;

    n->version = MULTIVERSE_VERSION;
    n->functions = distance(&n->functions, at(TABLES, FUNCTIONS));
    n->functions_end = distance(&n->functions_end, at(TABLES, functions_end));
    n->callsites = distance(&n->callsites, at(TABLES, SITES));
    n->callsites_end = distance(&n->callsites_end, at(TABLES, sites_end));
    n->switches = distance(&n->switches, at(TABLES, SWITCHES));
    n->switches_end = distance(&n->switches_end, at(TABLES, switches_end));
}

static unsigned make_switch(unsigned where, unsigned width, unsigned flags, unsigned in_slot)
{
    struct multiverse_switch *s = (void *)at(TABLES, where);

    *s = (struct multiverse_switch){24, (uint8_t)width, (uint8_t)flags, 16, 0, 0};
    s->slot = distance(&s->slot, at(SLOTS, 8 * in_slot));
    memcpy(s + 1, "switch", 7);
    return where + 24;
}

/* A call at `code` to `target`, recorded. */
static unsigned make_site(unsigned where, unsigned code, unsigned target, unsigned in_slot)
{
    struct multiverse_callsite *c = (void *)at(TABLES, where);
    int32_t rel = (int32_t)target - (int32_t)code - 5;

    *at(CODE, code) = 0xe8;
    memcpy(at(CODE, code + 1), &rel, 4);
    c->site = distance(&c->site, at(CODE, code));
    c->callee = distance(&c->callee, at(SLOTS, 8 * in_slot));
    return where + 8;
}

static unsigned make_function(unsigned where, unsigned body)
{
    struct multiverse_function *f = (void *)at(TABLES, where);
    struct multiverse_variant *v = (void *)(f + 1);
    struct multiverse_guard *g = (void *)(v + 2);

    *f = (struct multiverse_function){.size = 24 + 32 + 72 + 8, .name = 128, .n_variants = 2,
                                      .n_guards = 3};
    f->body = distance(&f->body, at(CODE, body));
    f->pad = distance(&f->pad, at(CODE, body));
    memcpy(at(CODE, body), "\x0f\x1f\x44\x00\x00\xc3", 6);
    v[0] = (struct multiverse_variant){.body_size = 6, .first_guard = 0, .n_guards = 1};
    v[1] = (struct multiverse_variant){.body_size = 3, .first_guard = 1, .n_guards = 2};
    v[0].body = distance(&v[0].body, at(CODE, body + 64));
    v[1].body = distance(&v[1].body, at(CODE, body + 128));
    memcpy(at(CODE, body + 64), "\xb8\x01\x00\x00\x00\xc3", 6);
    memcpy(at(CODE, body + 128), "\x31\xc0\xc3", 3);
    for (int i = 0; i < 3; i++) {
        g[i] = (struct multiverse_guard){.width = i < 2 ? 4 : 8, .flags = i < 2, .low = 0,
                                         .high = i == 0};
        g[i].slot = distance(&g[i].slot, at(SLOTS, 8 * (i < 2 ? SLOT_NARROW : SLOT_WIDE)));
    }
    memcpy(g + 3, "first", 6);
    return where + f->size;
}

static unsigned make_pointer(unsigned where, unsigned stub)
{
    struct multiverse_function *f = (void *)at(TABLES, where);

    *f = (struct multiverse_function){.size = 32, .name = 24,
                                      .flags = MULTIVERSE_FUNCTION_POINTER};
    f->body = distance(&f->body, at(CODE, stub));
    f->pad = distance(&f->pad, at(CODE, stub));
    f->pointer = distance(&f->pointer, at(SLOTS, 8 * SLOT_POINTER));
    memcpy(at(CODE, stub), "\x0f\x1f\x44\x00\x00\xc3", 6);
    memcpy(f + 1, "pointer", 8);
    return where + 32;
}

/* An inline call of `function`, with one arm behind the jump and one elsewhere. */
static unsigned make_inline(unsigned where, unsigned site, unsigned in_slot)
{
    struct multiverse_function *f = (void *)at(TABLES, where);
    struct multiverse_variant *v = (void *)(f + 1);
    struct multiverse_guard *g = (void *)(v + 2);

    *f = (struct multiverse_function){.size = 24 + 32 + 48 + 8, .name = 104, .n_variants = 2,
                                      .n_guards = 2, .flags = MULTIVERSE_FUNCTION_INLINE};
    f->body = distance(&f->body, at(CODE, site + 48));
    f->pad = distance(&f->pad, at(CODE, site));
    f->pointer = distance(&f->pointer, at(SLOTS, 8 * in_slot));
    memcpy(at(CODE, site), "\xe9\x2b\0\0\0", 5); /* jmp site + 48 */
    for (int i = 0; i < 2; i++) {
        v[i] = (struct multiverse_variant){.first_guard = (uint16_t)i, .n_guards = 1};
        v[i].body = distance(&v[i].body, at(CODE, site + (i ? 32 : 5)));
        g[i] = (struct multiverse_guard){.width = 4, .flags = 1, .low = (unsigned)i, .high = (unsigned)i};
        g[i].slot = distance(&g[i].slot, at(SLOTS, 8 * SLOT_NARROW));
    }
    memcpy(g + 2, "inline", 7);
    return where + f->size;
}

static int bound; /* functions, by the first commit of the run */
static int inline_bound; /* and the inline call was a NOP then */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    unsigned sites, switches, functions;
    void *target;

    (void)argc;
    (void)argv;
    arena = mmap(NULL, (BEHIND + 1) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED || mprotect(at(TABLES, 0), 4 * PAGE, PROT_READ | PROT_WRITE))
        abort();
    segments[0] = (struct mvld_segment){(uintptr_t)at(TABLES, 0), (uintptr_t)at(CODE, 0),
                                        PROT_READ};
    segments[1] = (struct mvld_segment){(uintptr_t)at(CODE, 0), (uintptr_t)at(SLOTS, 0),
                                        PROT_READ | PROT_EXEC};
    segments[2] = (struct mvld_segment){(uintptr_t)at(SLOTS, 0), (uintptr_t)at(BEHIND, 0),
                                        PROT_READ | PROT_WRITE};
    object = (struct mvld_object){.name = "fuzzed",
                                  .bias = (uintptr_t)at(TABLES, 0),
                                  .start = (uintptr_t)at(TABLES, 0),
                                  .end = (uintptr_t)at(BEHIND, 0),
                                  .segments = segments, .n_segments = 3};
    slot(SLOT_NARROW, at(DATA, 0));
    slot(SLOT_WIDE, at(DATA, 8));
    slot(SLOT_POINTER, at(DATA, 16));
    slot(SLOT_FIRST, at(CODE, 256));
    slot(SLOT_STUB, at(CODE, 512));
    target = at(CODE, 320);
    memcpy(at(DATA, 16), &target, sizeof target);
    sites = make_site(SITES, 1024, 256, SLOT_FIRST);
    sites = make_site(sites, 1029, 256, SLOT_FIRST);
    sites = make_site(sites, 1040, 512, SLOT_STUB);
    switches = make_switch(SWITCHES, 4, 1, SLOT_NARROW);
    switches = make_switch(switches, 8, MULTIVERSE_SWITCH_TRACKED, SLOT_WIDE);
    functions = make_function(FUNCTIONS, 256);
    functions = make_pointer(functions, 512);
    functions = make_inline(functions, 1280, SLOT_FIRST);
    make_note(sites, switches, functions);
    memcpy(template, at(TABLES, 0), 4 * PAGE);
    LLVMFuzzerTestOneInput(NULL, 0);
    if (bound != 2 || !inline_bound)
        abort(); /* the template itself must work */
    return 0;
}

/* ---- an image of one object --------------------------------------------------- */

struct mvld_batch {
    struct mvld_patch patches[64];
    size_t n;
};

static const struct mvld_object *find(const struct mvld_image *image, uintptr_t address)
{
    (void)image;
    return address >= object.start && address < object.end ? &object : NULL;
}

static int holds(const struct mvld_object *o, uintptr_t address, size_t length, uint32_t prot)
{
    const struct mvld_segment *none = NULL;

    return mv_holds(o, &none, address, length, prot);
}

static int note_each(const struct mvld_object *o, const char *name, uint32_t type,
                     int (*visit)(void *, const void *, size_t), void *cookie)
{
    (void)o;
    (void)name;
    return type == MULTIVERSE_NOTE_TABLES ? visit(cookie, at(TABLES, 0), sizeof *NOTE) : 0;
}

static uintptr_t plt_target(const struct mvld_image *image, uintptr_t address)
{
    (void)image;
    return address;
}

static struct mvld_batch *begin(struct mvld_image *image)
{
    (void)image;
    return calloc(1, sizeof(struct mvld_batch));
}

static int add(struct mvld_batch *b, uintptr_t address, const void *expect, const void *replace,
               size_t length)
{
    struct mvld_patch *patch = &b->patches[b->n];

    if (!length || length > MVLD_PATCH_MAX || b->n == RIMF_COUNT(b->patches))
        return -ENOMEM;
    patch->address = address;
    patch->length = (uint8_t)length;
    memcpy(patch->expect, expect, length);
    memcpy(patch->replace, replace, length);
    b->n++;
    return 0;
}

static int add_words(struct mvld_batch *b, uintptr_t base, const struct mvld_word *words,
                     const uint64_t *expect, const uint64_t *replace, size_t n)
{
    int err = 0;

    for (size_t i = 0; i < n && !err; i++)
        if (expect[i] != replace[i])
            err = add(b, base + words[i].offset, &expect[i], &replace[i], words[i].length);
    return err;
}

static int commit(struct mvld_batch *b, struct mvld_patch_report *report)
{
    for (size_t i = 0; i < b->n; i++) {
        struct mvld_patch *patch = &b->patches[i];

        if (patch->address < segments[1].start ||
            patch->address + patch->length > segments[1].end)
            abort(); /* outside the code */
        if (memcmp((void *)patch->address, patch->expect, patch->length))
            patch->result = -ESTALE; /* entries that overlap: refused as by the real one */
        else
            memcpy((void *)patch->address, patch->replace, patch->length);
        report->refused += patch->result != 0;
    }
    return 0;
}

static const struct mvld_patch *nth(const struct mvld_batch *b, size_t i) { return &b->patches[i]; }
static void end(struct mvld_batch *b) { free(b); }

/* Every block is freed when the run is over, so that a leak is none of ours. */
static void *blocks[4096];
static size_t n_blocks;

static void *allocate(struct mvld_image *image, size_t size)
{
    void *block = n_blocks < RIMF_COUNT(blocks) && size < 1 << 24 ? calloc(1, size) : NULL;

    (void)image;
    if (block)
        blocks[n_blocks++] = block;
    return block;
}

static void release(struct mvld_image *image, void *block)
{
    (void)image;
    for (size_t i = 0; block && i < n_blocks; i++)
        if (blocks[i] == block) {
            blocks[i] = blocks[--n_blocks];
            free(block);
            return;
        }
    if (block)
        abort(); /* released twice */
}

static char sentence[1024];

static int fail(struct mvld_image *image, int err, const char *format, ...)
{
    va_list args;

    (void)image;
    va_start(args, format);
    rimf_vformat(sentence, sizeof sentence, format, args);
    va_end(args);
    return -err;
}

static const char *last_error(const struct mvld_image *image)
{
    (void)image;
    return sentence;
}

static void no_log(const struct mvld_image *image, uint32_t category, const char *format, ...)
{
    (void)image;
    (void)category;
    (void)format;
}

static int no_category(const struct mvld_image *image, uint32_t category)
{
    (void)image;
    (void)category;
    return 0;
}

static uintptr_t original_of(const struct mvld_image *image, uintptr_t address)
{
    (void)image;
    (void)address;
    return 0;
}

static int nothing_moved(const struct mvld_image *image, uintptr_t original, size_t length,
                         uintptr_t *moved)
{
    (void)image;
    (void)original;
    (void)length;
    *moved = 0;
    return 2;
}

static void often(struct mvld_image *image)
{
    (void)image;
}

static const struct mvld_api api = {
    .object_find = find, .object_holds = holds, .note_each = note_each,
    .plt_target = plt_target, .patch_begin = begin, .patch_add = add, .patch_commit = commit,
    .patch_at = nth, .patch_end = end, .alloc = allocate, .release = release, .fail = fail,
    .last_error = last_error, .log = no_log, .log_enabled = no_category, .patch_add_words = add_words,
    .patch_often = often, .original_of = original_of, .moved_find = nothing_moved,
};

/* ---- one input ------------------------------------------------------------------ */

static void read_names(void *cookie, const struct mv_item *item)
{
    *(size_t *)cookie += strlen(item->var ? item->var->name : item->fn->name);
}

static void use(struct mv_engine *engine)
{
    size_t read = 0;
    struct mv_call calls[] = {
        {.operation = MV_APPLY, .action = MV_COMMIT, .scope = MV_REFS, .what = at(DATA, 0)},
        {.operation = MV_BIND, .what = at(DATA, 8), .state = 1},
        {.operation = MV_APPLY, .action = MV_COMMIT, .scope = MV_FUNCTION, .what = at(CODE, 256)},
        {.operation = MV_APPLY, .action = MV_COMMIT, .scope = MV_FUNCTION, .what = at(DATA, 16)},
        {.operation = MV_APPLY, .action = MV_COMMIT}, /* the pointer is NULL by then */
        {.operation = MV_INFO_FN, .what = at(CODE, 256)},
        {.operation = MV_INFO_VAR, .what = at(DATA, 0)},
        {.operation = MV_VISIT, .visit = read_names, .cookie = &read},
        {.operation = MV_APPLY, .action = MV_REVERT},
    };
    struct mv_call first = {.operation = MV_APPLY, .action = MV_COMMIT};
    struct mv_reply reply = {0};

    bound = mv_ops_of(engine)->call(engine, &first, &reply);
    inline_bound = *at(CODE, 1280) == 0x0f;
    *at(DATA, 0) ^= 1;
    for (size_t i = 0; i < RIMF_COUNT(calls); i++) {
        if (i == 4)
            memset(at(DATA, 16), 0, 8);
        mv_ops_of(engine)->call(engine, &calls[i], &reply);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t code[PAGE];
    const struct mvld_object *objects[1] = {&object};
    struct mv_engine *engine;

    memcpy(at(TABLES, 0), template, 4 * PAGE);
    for (size_t i = 0; i + 3 <= size && i < 3 * 256; i += 3)
        at(TABLES, 0)[(data[i] | data[i + 1] << 8) % (3 * PAGE)] = data[i + 2];
    memcpy(code, at(CODE, 0), PAGE);
    if (mv_create(NULL, &api, &rimf_sys_kernel, &engine))
        return 0;
    if (!mv_added(engine, objects, 1)) {
        use(engine);
        if (memcmp(code, at(CODE, 0), PAGE))
            abort(); /* the revert left something */
        mv_removed(engine, objects, 1);
    }
    while (n_blocks)
        free(blocks[--n_blocks]);
    return 0;
}
