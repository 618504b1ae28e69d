/* SPDX-License-Identifier: MIT
 *
 * rimf/code/functions.c: the tables of functions and of instructions (mvld/pass/code.h).
 *
 * The units of the analysis are the functions.  Names are those of the dynamic symbol table; for movable
 * functions also those that the analyser took from .symtab.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/image/edits.h"
#include "rimf/image/original.h"
#include "rimf/moved/moved.h"
#include "rimf/x86/decode.h"
#include "mvld/descriptor.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* ---- names ------------------------------------------------------------------------------------ */

struct rimf_named {
    uintptr_t address;
    const char *name;
    int is_function;
};

/* Names of one object. */
struct names {
    struct mvld_image *image;
    int held; /* so are all functions of the object: see is_altered */
    const struct rimf_named *list; /* ascending */
    size_t n;
    struct analysis_symbols in; /* of the analysis, ascending */
    uintptr_t first; /* base of their values */
};

/* The names of an object while they are listed. */
struct listing {
    struct mvld_image *image;
    struct rimf_named *list;
    size_t n, room;
};

static int note_name(void *cookie, const struct mvld_symbol *symbol)
{
    struct listing *all = cookie;

    if (!symbol->address)
        return 0;
    if (!RIMF_ONE_MORE(&all->image->heap, all->list, all->n, all->room, 256))
        return -ENOMEM;
    all->list[all->n++] = (struct rimf_named){symbol->address, symbol->name,
                                              symbol->type == STT_FUNC || symbol->type == STT_GNU_IFUNC};
    return 0;
}

/* Lists them once for all functions: a pass may ask for each function of an object by its address. */
static int list_names(struct mvld_image *image, struct rimf_object *object)
{
    struct listing all = {.image = image};
    int error = object->named ? 0 : rimf_symbol_each(&object->public, note_name, &all);

    if (error < 0) {
        rimf_heap_release(&image->heap, all.list);
        return error;
    }
    if (!object->named) {
        rimf_sort(all.list, all.n, sizeof *all.list);
        object->named = all.list;
        object->n_named = all.n;
    }
    return 0;
}

/* Whether functions of the object may have references that its analysis does not list: a pass changed code of the
 * object, or bound calls or references to it, or multiverse knows functions by their addresses. */
static int is_altered(const struct mvld_image *image, const struct rimf_object *object)
{
    return object->code.patched & (OBJECT_PATCHED | OBJECT_SPLICED) || object->code.bound ||
           rimf_has_moved(image, object) ||
           elf_note_each(&object->view, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES, NULL, NULL);
}

static int names_open(struct names *names, struct mvld_image *image, struct rimf_object *object)
{
    const struct analysis *s;
    int error = code_bound_read(image);

    error = error ? error : list_names(image, object);
    if (error)
        return error;
    *names = (struct names){.image = image, .held = is_altered(image, object), .list = object->named,
                            .n = object->n_named};
    s = rimf_analysis_whole(image, object, NULL);
    if (!s || !analysis_symbols(s, &names->in))
        names->in.n = 0;
    names->first = object->view.bias + names->in.first;
    return 0;
}

/* Of several names one without underscores, if any: the last in alphabetical order.  The entries of the
 * analysis are unchecked. */
static const char *name_at(const struct names *names, uintptr_t address)
{
    size_t i = RIMF_BISECT(i, names->n, names->list[i].address < address);
    const char *best = NULL;

    for (; i < names->n && names->list[i].address == address; i++)
        if (names->list[i].is_function && (!best || rimf_strncmp(names->list[i].name, best, rimf_strlen(best) + 1) > 0))
            best = names->list[i].name;
    if (best)
        return best;
    i = RIMF_BISECT(i, names->in.n, names->first + names->in.list[i].st_value < address);
    i += i == 0; /* the empty one says 0, as that of the first function does */
    if (i < names->in.n && names->first + names->in.list[i].st_value == address &&
        names->in.list[i].st_name < names->in.names_size)
        return names->in.names + names->in.list[i].st_name;
    return NULL;
}

/* ---- functions -------------------------------------------------------------------------------- */

/* References to it from outside proven functions. */
static uint32_t flags_of(const struct names *names, const struct analysis_unit *unit, uintptr_t entry)
{
    int proven = unit->reason == ANALYSIS_PROVEN;
    int held = !proven || names->held || unit->flags & ANALYSIS_HELD || rimf_is_kept_original(names->image, entry) ||
               code_spliced_by(names->image, entry, unit->size);
    uint32_t flags = (held || unit->flags & ANALYSIS_REACHED ? MVLD_FUNCTION_REACHED : 0) |
                     (held ? MVLD_FUNCTION_HELD : 0);
    size_t i = RIMF_BISECT(i, names->n, names->list[i].address < entry);

    for (; i < names->n && names->list[i].address - entry < unit->size; i++)
        flags |= MVLD_FUNCTION_REACHED | MVLD_FUNCTION_EXPORTED |
                 (code_is_bound(names->image, names->list[i].address, names->list[i].name) ? MVLD_FUNCTION_BOUND : 0);
    return flags | (code_is_bound(names->image, entry, NULL) ? MVLD_FUNCTION_REACHED | MVLD_FUNCTION_BOUND : 0);
}

static void fill(struct mvld_function *out, struct rimf_object *object, const struct analysis *s,
                 const struct analysis_unit *unit, const struct names *names)
{
    const struct analysis_unit *first = unit, *last = unit;

    *out = (struct mvld_function){
        .object = &object->public,
        .entry = object->view.bias + unit->start,
        .end = object->view.bias + unit->start + unit->size,
        .proof = unit->reason == ANALYSIS_PROVEN       ? MVLD_PROOF_MOVABLE
                 : unit->flags & ANALYSIS_DECODED ? MVLD_PROOF_DECODED
                                                  : MVLD_PROOF_NONE,
        .why = unit->reason == ANALYSIS_PROVEN ? NULL : analysis_reason_words((enum analysis_reason)unit->reason),
    };
    out->name = name_at(names, out->entry);
    out->flags = flags_of(names, unit, out->entry);
    if (unit->reason || s->header->flags)
        return;
    while (first > s->units && first[-1].flags & ANALYSIS_JOINED)
        first--;
    while (last->flags & ANALYSIS_JOINED && last + 1 < s->units + s->n_units)
        last++;
    while (first->reason)
        first++;
    while (last->reason)
        last--;
    out->fragment = (struct mvld_fragment){object->view.bias + first->start, last->start + last->size - first->start};
}

int rimf_function_each(struct mvld_image *image, const struct mvld_object *public,
                       int (*visit)(void *cookie, const struct mvld_function *), void *cookie, const char **why)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    const struct analysis *s;
    struct names names;
    int result;

    if (!image || !rimf_is_mapped(public) || !visit || !why)
        return -EINVAL;
    s = rimf_analysis_branches(image, object, why);
    if (!s)
        return -ENODATA;
    result = names_open(&names, image, object);
    for (size_t i = 0; i < s->n_units && !result; i++) {
        struct mvld_function function;

        fill(&function, object, s, &s->units[i], &names);
        result = visit(cookie, &function);
    }
    return result;
}

int rimf_function_find(struct mvld_image *image, uintptr_t address, struct mvld_function *out)
{
    const struct mvld_object *public = image && out ? rimf_object_find(image, address) : NULL;
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    const struct analysis_unit *unit;
    const struct analysis *s;
    struct names names;
    int error;

    if (!image || !out)
        return -EINVAL;
    s = public ? rimf_analysis_branches(image, object, NULL) : NULL;
    unit = s && address - object->view.bias < UINT32_MAX
               ? analysis_unit_at(s, (uint32_t)(address - object->view.bias)) : NULL;
    if (!unit)
        return -ENOENT;
    error = names_open(&names, image, object);
    if (!error)
        fill(out, object, s, unit, &names);
    return error;
}

/* ---- instructions ------------------------------------------------------------------------------ */

const struct analysis_unit *code_unit_at(struct mvld_image *image, struct rimf_object *object, uintptr_t address,
                                         const struct analysis **s, const char **why)
{
    const struct analysis_unit *unit;

    *s = rimf_analysis_branches(image, object, why);
    if (!*s)
        return NULL;
    unit = address - object->view.bias < UINT32_MAX
               ? analysis_unit_at(*s, (uint32_t)(address - object->view.bias)) : NULL;
    *why = !unit                              ? "no function is there"
           : !(unit->flags & ANALYSIS_DECODED) ? "its function is not proven"
           : object->moved                     ? "its code was moved before" /* a jump was written over some of it */
           : object->code.patched & OBJECT_PATCHED  ? "a pass changed code of its object, byte by byte"
                                               : rimf_removed_by(image, object->view.bias + unit->start);
    return *why ? NULL : unit;
}

/* Records the targets of the tables that this unit jumps through. */
static void note_tables(const struct rimf_object *object, const struct analysis *s, const struct analysis_unit *unit,
                        const struct code_instructions *all)
{
    for (size_t i = ANALYSIS_FROM(s, references, unit->start);
         i < s->n_references && s->references[i].address - unit->start < unit->size; i++) {
        const struct analysis_reference *r = &s->references[i];
        uintptr_t at = object->view.bias + r->address;
        uintptr_t table = at + 4 + r->rest + (uintptr_t)distance_at((const void *)at);
        size_t k = r->kind == ANALYSIS_TO_JUMP_TABLE
                       ? ANALYSIS_FROM(s, jump_tables, (uint32_t)(table - object->view.bias)) : s->n_jump_tables;

        if (k == s->n_jump_tables || object->view.bias + s->jump_tables[k].address != table ||
            !elf_holds(&object->view, table, 4ul * s->jump_tables[k].count, PROT_READ))
            continue;
        for (uint32_t e = 0; e < s->jump_tables[k].count; e++) {
            struct mvld_instruction *to = code_instruction_at(all, entry_target(table, table + 4ul * e));

            if (to)
                to->others = MVLD_OTHERS_LEAD;
        }
    }
}

/* Nothing branches into the bytes of a head. */
static void note_head(const struct rimf_object *object, const struct analysis_unit *unit,
                      const struct code_instructions *all)
{
    uintptr_t start = object->view.bias + unit->start, head = start + endbr64_size((const void *)start, unit->size);

    for (size_t i = 1; i < all->n && unit->flags & ANALYSIS_HEAD; i++)
        if (all->list[i].address > head && all->list[i].address < head + ANALYSIS_HEAD_SIZE &&
            all->list[i].others == MVLD_OTHERS_UNKNOWN)
            all->list[i].others = MVLD_OTHERS_NONE;
}

int code_instructions_at(struct mvld_image *image, struct rimf_object *object, const struct analysis *s,
                         const struct analysis_unit *unit, struct code_instructions *all, const char **why)
{
    uintptr_t start = object->view.bias + unit->start;
    struct code_frame frame;
    int decides, error = -ENOEXEC;

    *why = "its code is not what the analysis says";
    if (!elf_holds(&object->view, start, unit->size, PROT_READ | PROT_EXEC))
        return -ENODATA;
    decides = !unit->reason && !code_frame_of(object, s, unit, &frame) && !frame.has_pads;
    error = code_instructions_of(&image->heap, (const uint8_t *)start, unit->size, start, decides, all);
    if (error) {
        *why = error == -ENOMEM ? "out of memory" : *why;
        return error == -ENOMEM ? error : -ENODATA;
    }
    note_tables(object, s, unit, all);
    note_head(object, unit, all);
    *why = NULL;
    return 0;
}

/* Records the targets that passes want for calls, by their displacement or by their slot. */
static void note_wanted(struct mvld_image *image, const struct rimf_object *object, const struct analysis *s,
                        const struct code_instructions *all)
{
    uintptr_t bias = object->view.bias;
    uint32_t first = all->n ? (uint32_t)(all->list[0].address - bias) : 0;
    size_t call = ANALYSIS_FROM(s, calls, first);

    for (size_t i = 0; i < all->n; i++) {
        struct mvld_instruction *at = &all->list[i];
        const struct rimf_retarget *wanted = at->target ? rimf_retarget_at(image, at->address + at->length - 4u) : NULL;
        uintptr_t slot = 0, target;

        if (call < s->n_calls && bias + s->calls[call].address - at->address < at->length)
            slot = analysis_slot(&s->calls[call++]);
        target = slot && rimf_edits_of(image, object) ? rimf_edit_wanted(image, object, bias + slot).target : 0;
        at->target = wanted ? wanted->target : target ? target : at->target;
        if (target && at->flow == MVLD_FLOW_CALL_INDIRECT)
            at->flow = MVLD_FLOW_CALL;
        if (target && at->flow == MVLD_FLOW_JUMP_INDIRECT)
            at->flow = MVLD_FLOW_JUMP;
    }
}

int rimf_instruction_each(struct mvld_image *image, const struct mvld_function *function,
                          int (*visit)(void *cookie, const struct mvld_instruction *), void *cookie,
                          const char **why)
{
    const struct mvld_object *public = image && function ? rimf_object_find(image, function->entry) : NULL;
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    struct code_instructions all;
    const struct analysis_unit *unit;
    const struct analysis *s;
    int result;

    if (!public || !visit || !why)
        return -EINVAL;
    unit = code_unit_at(image, object, function->entry, &s, why);
    if (!unit)
        return -ENODATA;
    result = code_instructions_at(image, object, s, unit, &all, why);
    if (result)
        return result;
    note_wanted(image, object, s, &all);
    for (size_t i = 0; i < all.n && !result; i++)
        result = visit(cookie, &all.list[i]);
    code_instructions_release(&image->heap, &all);
    return result;
}
