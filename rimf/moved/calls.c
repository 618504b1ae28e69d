/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/calls.c: where calls of moved code lead that go, or went, through slots (moved/moved.h).
 *
 * The bytes of a call say what it is by now:
 *
 *     e8 rel32  e9 rel32  0f 8x rel32     call, jmp, jcc: a PLT entry, or the function itself
 *     67 e8 rel32                         was ff 15: addr32 call f
 *     ff 15 rel32   ff 25 rel32           still goes through its slot
 *     e9 rel32 90                         was ff 25: jmp f; nop
 *     mov, xor                            was e8: what the function does (single.h)
 *
 * A pass may have a rule for calls that is realised here (image/edits.c): it is asked, and
 * what goes through a slot becomes the instruction beside it above.  It leads to the moved code of the
 * function, if there is one; what nobody knows more of leads where it led.
 *
 * Of the calls of an object dozens name the same: the answers are kept in a table, one for all
 * objects of a batch, in which a newcomer takes the place of who had it.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/image/edits.h"
#include "rimf/x86/single.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define CALLER_LEAST 256u
#define CALLER_MOST 4096u
#define CALLS_AN_ANSWER 16u
#define AHEAD 8u /* code that just moved lies in distant caches */

struct answer {
    uintptr_t names; /* 0: nothing is known here */
    uintptr_t slot;  /* | ENDS */
    uintptr_t target; /* 0: no further */
    const char *why; /* the rule leaves it, or NULL */
};
#define ENDS 1u /* somebody said where */

struct moved_targets {
    size_t mask;
    struct answer answers[];
};

/* Of one object. */
struct calling {
    struct moving *c;
    struct moved_targets *known;
};

struct call {
    uint8_t *at;           /* in the moved code */
    unsigned length, rel;  /* of the instruction; where its distance is */
    int to_slot;           /* it goes through it */
    uintptr_t names, slot; /* what the distance leads to, an original; what the analysis says */
};

/* 0: it is none that is known. */
static int read_call(struct call *call, enum analysis_call_kind kind)
{
    const uint8_t *at = call->at;

    call->rel = 1;
    call->length = 5;
    call->to_slot = 0;
    switch (kind) {
    case ANALYSIS_CALL_PLT:
        return at[0] == 0xe8;
    case ANALYSIS_JMP_PLT:
        return at[0] == 0xe9;
    case ANALYSIS_JCC_PLT:
        call->rel = 2;
        call->length = 6;
        return at[0] == 0x0f && (at[1] & 0xf0) == 0x80;
    case ANALYSIS_CALL_SLOT:
        call->rel = 2;
        call->length = 6;
        call->to_slot = at[0] == 0xff && at[1] == 0x15;
        return call->to_slot || (at[0] == 0x67 && at[1] == 0xe8);
    case ANALYSIS_JMP_SLOT:
        if (at[0] == 0xe9 && at[5] == 0x90)
            return 1;
        call->rel = 2;
        call->length = 6;
        call->to_slot = at[0] == 0xff && at[1] == 0x25;
        return call->to_slot;
    default:
        return 0;
    }
}

/* ff 15, ff 25: it leads to code from here on. */
static void make_direct(struct call *call)
{
    if (call->at[1] == 0x15) {
        call->at[0] = 0x67;
        call->at[1] = 0xe8;
        return;
    }
    call->at[0] = 0xe9;
    call->at[5] = 0x90;
    call->rel = 1;
    call->length = 5;
}

static struct answer ask(const struct calling *k, const struct call *call)
{
    struct mvld_image *image = k->c->image;
    struct rimf_object *object = k->c->object;
    struct answer answer = {.names = call->names, .slot = call->slot};
    uintptr_t end = 0;

    if (object->edit && call->names != call->slot &&
        rimf_plt_slot(&object->public, call->names) != call->slot)
        answer.why = edit_other;
    else if (object->edit)
        answer.why = rimf_edit_lead(image, object, call->slot, &end);

    answer.slot |= end ? ENDS : 0;
    if (!end && !call->to_slot)
        end = call->names;
    if (end)
        answer.target = rimf_moved_to(image, end);
    if (!answer.target && answer.slot & ENDS)
        answer.target = end;
    answer.why = answer.slot & ENDS ? NULL : answer.why;
    return answer;
}

static const struct answer *answer_of(const struct calling *k, const struct call *call)
{
    size_t at = (call->names >> 3) * 0x9e3779b97f4a7c15u >> 32;
    struct answer *answer = &k->known->answers[at & k->known->mask];

    if (answer->names != call->names || (answer->slot & ~(uintptr_t)ENDS) != call->slot)
        *answer = ask(k, call);
    return answer;
}

/* From anywhere in the call. */
static int reaches(const struct call *call, uintptr_t to)
{
    intptr_t distance = (intptr_t)(to - (uintptr_t)call->at);

    return distance <= INT32_MAX && distance - (intptr_t)call->length >= INT32_MIN;
}

static int move_call(struct calling *k, const struct analysis_call *listed)
{
    struct moving *c = k->c;
    struct call call = {.at = moving_byte(c, listed->address),
                        .slot = c->bias + analysis_slot(listed)};
    const struct answer *answer;
    uintptr_t next;

    if (!call.at) {
        c->object->calls_unmoved++;
        return 0;
    }
    if (!read_call(&call, analysis_call_kind(listed)))
        return moving_refuse(c, "a call is not what the analysis says, nor what a pass made of it");
    next = (uintptr_t)call.at + call.length;
    call.names = next - (uintptr_t)c->distance + (uintptr_t)distance_at(call.at + call.rel);
    answer = answer_of(k, &call);
    c->object->calls_moved++;
    if (answer->why)
        rimf_edit_left(c->object->edit, answer->why, 1);
    if (!answer->target || (answer->slot & ENDS && !reaches(&call, answer->target)))
        return moving_target(c, call.at + call.rel, next, call.names);
    c->object->calls_made += answer->slot & ENDS;
    if (call.to_slot)
        make_direct(&call);
    return moving_target(c, call.at + call.rel, (uintptr_t)call.at + call.length, answer->target);
}

/* A call of a function of a single instruction. */
static int move_single(struct calling *k, const struct analysis_call *listed)
{
    struct moving *c = k->c;
    uint8_t *at = moving_byte(c, listed->address), made[SINGLE_CALL];
    uintptr_t next = (uintptr_t)at + SINGLE_CALL, target, fragment;

    if (!at) {
        c->object->calls_unmoved++;
        return 0;
    }
    c->object->calls_moved++;
    if (single_stands(at)) /* a pass put it there */
        return 0;
    if (at[0] != 0xe8)
        return moving_refuse(c, "a call is not what the analysis says, nor what a pass made of it");
    target = next - (uintptr_t)c->distance + (uintptr_t)distance_at(at + 1);
    if (c->object->edit && elf_holds(&c->object->view, target, 1, PROT_READ | PROT_EXEC) &&
        single_read((const uint8_t *)target, elf_room(&c->object->view, target), made) &&
        rimf_edit_end(c->image, c->object, 0)) {
        memcpy(at, made, sizeof made);
        c->object->calls_made++;
        return 0;
    }
    fragment = moving_at(c, target) ? target + (uintptr_t)c->distance : target;
    return moving_target(c, at + 1, next, fragment);
}

/* Calls are listed of units that stay, too. */
static int move_all(struct calling *k)
{
    const struct analysis *s = k->c->analysis;
    size_t unit = 0;
    int error = 0;

    for (size_t i = 0; i < s->n_calls && !error; i++) {
        if (i + AHEAD < s->n_calls) /* a guess where there are fragments */
            __builtin_prefetch((const void *)(k->c->bias + s->calls[i + AHEAD].address +
                                              (uintptr_t)k->c->distance), 1);
        while (s->calls[i].address - s->units[unit].start >= s->units[unit].size)
            unit++; /* the reader saw to it that there is one */
        if (s->units[unit].reason != ANALYSIS_PROVEN)
            k->c->object->calls_unmoved++;
        else if (analysis_call_kind(&s->calls[i]) == ANALYSIS_CALL_SINGLE)
            error = move_single(k, &s->calls[i]);
        else
            error = move_call(k, &s->calls[i]);
    }
    return error;
}

struct moved_targets *moved_targets_create(struct mvld_image *image, size_t calls)
{
    struct moved_targets *known;
    size_t n = CALLER_LEAST;

    while (n < CALLER_MOST && n * CALLS_AN_ANSWER < calls)
        n *= 2;
    known = rimf_heap_alloc(&image->heap, sizeof *known + n * sizeof known->answers[0]);
    if (known)
        known->mask = n - 1;
    return known;
}

int move_calls(struct moving *c)
{
    struct calling k = {.c = c, .known = c->answers};

    c->object->calls_moved = c->object->calls_made = c->object->calls_unmoved = 0;
    return move_all(&k);
}
