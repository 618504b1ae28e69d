/* SPDX-License-Identifier: MIT
 *
 * rimf/image/reference_tables.c: lists all known references of an object, one kind after the other
 * (reference_each of mvld/pass.h).
 *
 *     calls through PLT and GOT    the analysis lists them
 *     calls, jumps, lea            so it does: their displacements.  Which instruction it is, its bytes say
 *     slots, words                 the relocations are the tables; what they hold decides
 */
#include "rimf/image/edits.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"
#include "rimf/x86/decode.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct walk {
    struct mvld_image *image;
    struct rimf_object *object;
    uint32_t kinds;
    int (*visit)(void *cookie, const struct mvld_reference *);
    void *cookie;
};

/* `at`: the place by which its wanted target is recorded. */
static int report(const struct walk *w, enum mvld_reference_kind kind, uintptr_t site, uintptr_t at, uintptr_t found)
{
    struct mvld_reference reference = {.site = site, .slot = kind == MVLD_REFERENCE_SLOT ? site : 0, .kind = kind,
                                       .target = found, .found = found};
    const struct rimf_retarget *wanted;

    if (!(w->kinds & MVLD_REFERENCES(kind)))
        return 0;
    wanted = rimf_retarget_at(w->image, at);
    if (wanted)
        reference.target = wanted->target;
    return w->visit(w->cookie, &reference);
}

/* ---- code ------------------------------------------------------------------------------------ */

static int walk_slot_calls(const struct walk *w, const struct analysis *s)
{
    uintptr_t bias = w->object->view.bias;
    struct mvld_binding slot = {.slot = 0}; /* of the previous call: neighbours often use the same one */
    int result = 0;

    for (size_t i = 0; i < s->n_calls && !result; i++) {
        enum mvld_reference_kind kind = (enum mvld_reference_kind)analysis_call_kind(&s->calls[i]);
        struct mvld_reference reference = {.site = bias + s->calls[i].address, .kind = kind,
                                           .slot = bias + analysis_slot(&s->calls[i])};

        if (!(w->kinds & MVLD_REFERENCES(kind)))
            continue;
        if (slot.slot != reference.slot)
            slot = rimf_call_wanted(w->image, w->object, reference.slot);
        reference.found = slot.found;
        reference.target = slot.target;
        result = w->visit(w->cookie, &reference);
    }
    return result;
}

/* The kind of the instruction with this displacement; 0: another one. */
enum mvld_reference_kind rimf_operand_kind(const uint8_t *at)
{
    if (at[-2] == 0x8d && (at[-1] & 0xc7) == 5 && (at[-3] & 0xfb) == 0x48)
        return MVLD_REFERENCE_LEA;
    if (at[-1] == 0xe8)
        return MVLD_REFERENCE_CALL;
    return at[-1] == 0xe9 || (at[-2] == 0x0f && (at[-1] & 0xf0) == 0x80) ? MVLD_REFERENCE_JUMP : 0;
}

/* A four-byte displacement, proven to be of an operand or a branch. */
static int report_operand(const struct walk *w, uint32_t address, int is_branch)
{
    const uint8_t *at = (const uint8_t *)(w->object->view.bias + address);
    enum mvld_reference_kind kind;
    uintptr_t target;
    int32_t distance;

    if (!elf_holds(&w->object->view, (uintptr_t)at - 3, 7, PROT_READ | PROT_EXEC))
        return 0;
    kind = rimf_operand_kind(at);
    if (!kind || (kind == MVLD_REFERENCE_LEA) == is_branch)
        return 0;
    memcpy(&distance, at, sizeof distance);
    target = (uintptr_t)at + sizeof distance + (uintptr_t)(intptr_t)distance;
    return report(w, kind, (uintptr_t)at - (at[-1] == 0xe8 || at[-1] == 0xe9 ? 1 : 2), (uintptr_t)at,
                rimf_unmoved(w->image, target));
}

static int walk_operands(const struct walk *w, const struct analysis *s)
{
    int result = 0;

    for (size_t i = 0; i < s->n_references && !result; i++) {
        const struct analysis_reference *r = &s->references[i];

        if (r->kind == ANALYSIS_BRANCH_ORIGINAL ||
            (!r->rest && (r->kind == ANALYSIS_TO_CODE || r->kind == ANALYSIS_TO_ORIGINAL)))
            result = report_operand(w, r->address, r->kind == ANALYSIS_BRANCH_ORIGINAL);
    }
    for (size_t i = 0; i < s->n_branches && !result; i++)
        result = report_operand(w, s->branches[i].address, 1);
    return result;
}

/* ---- data -------------------------------------------------------------------------------------- */

static int walk_slots(const struct walk *w)
{
    struct mvld_slot slot;
    int result = 0;

    for (size_t i = 0; !result && !rimf_slot_at(w->image, &w->object->public, i, &slot); i++)
        result = report(w, MVLD_REFERENCE_SLOT, slot.address, slot.address, slot.found);
    return result;
}

/* A word whose value is the address of code. */
static int report_word(void *cookie, uintptr_t word)
{
    const struct walk *w = cookie;
    const struct mvld_object *holder;
    uintptr_t value;

    if (word % sizeof value || !elf_holds(&w->object->view, word, sizeof value, PROT_READ | PROT_WRITE))
        return 0;
    value = rimf_unmoved(w->image, *(const uintptr_t *)word);
    holder = rimf_object_find(w->image, value);
    return holder && elf_holds(&rimf_object_of(holder)->view, value, 1, PROT_EXEC)
               ? report(w, MVLD_REFERENCE_WORD, word, word, value) : 0;
}

/* ---- which words ------------------------------------------------------------------------------- */

/* One bit for each 8 bytes of the object. */
struct rimf_words {
    uint64_t bits[1];
};

static int mark(void *cookie, uintptr_t word)
{
    struct rimf_object *object = cookie;
    size_t i = (word - object->public.start) / 8;

    if (word % 8 == 0 && word >= object->public.start && word < object->public.end)
        object->words->bits[i / 64] |= 1ul << i % 64;
    return 0;
}

int rimf_word_is_pointer(struct mvld_image *image, struct rimf_object *object, uintptr_t word)
{
    size_t i = (word - object->public.start) / 8;

    if (!object->words) {
        object->words = rimf_heap_alloc(&image->heap, (object->public.end - object->public.start) / 64 + 16);
        if (object->words)
            elf_pointer_each(&object->view, mark, object);
    }
    return object->words && word % 8 == 0 && word >= object->public.start && word < object->public.end &&
           object->words->bits[i / 64] >> i % 64 & 1;
}

/* ---- all of them ------------------------------------------------------------------------------- */

static const char moved[] = "its code was moved before";

#define THROUGH_SLOTS 0x3eu
#define OF_ANALYSIS (MVLD_REFERENCES(MVLD_REFERENCE_CALL) | MVLD_REFERENCES(MVLD_REFERENCE_JUMP) | \
                     MVLD_REFERENCES(MVLD_REFERENCE_LEA))

int rimf_reference_each(struct mvld_image *image, const struct mvld_object *public, uint32_t kinds,
                        int (*visit)(void *cookie, const struct mvld_reference *), void *cookie,
                        const char **why)
{
    struct walk w = {image, (struct rimf_object *)rimf_object_of(public), kinds, visit, cookie};
    const struct analysis *s = NULL;
    const char *reason = moved; /* a jump was written over some of it */
    int result = 0;

    if (!image || !rimf_is_mapped(public) || !visit || !why)
        return -EINVAL;
    if (kinds & OF_ANALYSIS && !rimf_has_moved(image, w.object))
        s = rimf_analysis_branches(image, w.object, &reason);
    else if (!(kinds & OF_ANALYSIS) && kinds & THROUGH_SLOTS)
        s = rimf_analysis_calls(image, w.object, &reason);
    if (kinds & (OF_ANALYSIS | THROUGH_SLOTS) && !s) {
        *why = reason;
        return -ENODATA;
    }
    if (kinds & THROUGH_SLOTS)
        result = walk_slot_calls(&w, s);
    if (!result && kinds & OF_ANALYSIS)
        result = walk_operands(&w, s);
    if (!result && kinds & MVLD_REFERENCES(MVLD_REFERENCE_SLOT))
        result = walk_slots(&w);
    if (!result && kinds & MVLD_REFERENCES(MVLD_REFERENCE_WORD))
        result = elf_pointer_each(&w.object->view, report_word, &w);
    return result;
}

_Static_assert((int)MVLD_REFERENCE_CALL_PLT == ANALYSIS_CALL_PLT &&
                   (int)MVLD_REFERENCE_JUMP_PLT == ANALYSIS_JMP_PLT &&
                   (int)MVLD_REFERENCE_JCC_PLT == ANALYSIS_JCC_PLT &&
                   (int)MVLD_REFERENCE_CALL_SLOT == ANALYSIS_CALL_SLOT &&
                   (int)MVLD_REFERENCE_JUMP_SLOT == ANALYSIS_JMP_SLOT,
               "one numbering");
