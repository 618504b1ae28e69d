/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/calls.c: where calls of moved code lead that go, or went, through slots (moved/moved.h).
 *
 * The bytes of a call say what it is by now: what the analysis says, or what a pass made of that
 * (x86/slot_call.h).
 *
 * A pass may have a rule for calls that is realised here (image/edits.c): it is asked, and
 * what goes through a slot becomes a direct one.  It leads to the moved code of the
 * function, if there is one; what nobody knows more of leads where it led.
 *
 * Of the calls of an object dozens name the same: the answers are kept in a table, one for all
 * objects of a batch, in which a newcomer takes the place of who had it.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/image/edits.h"
#include "rimf/x86/slot_call.h"

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

struct call {
    struct site site;      /* in the moved code */
    uintptr_t names, slot; /* what its distance leads to, an original; what the analysis says */
};

static struct answer ask(const struct moving *c, const struct call *call)
{
    struct rimf_object *object = c->object;
    struct answer answer = {.names = call->names, .slot = call->slot};
    uintptr_t end = 0;

    if (object->edit && call->names != call->slot &&
        rimf_plt_slot(&object->public, call->names) != call->slot)
        answer.why = edit_other;
    else if (object->edit)
        answer.why = rimf_edit_lead(c->image, object, call->slot, &end);

    if (end) {
        uintptr_t moved = rimf_moved_to(c->image, end);

        answer.slot |= ENDS;
        answer.target = moved ? moved : end;
        answer.why = NULL;
    } else if (!call->site.to_slot) {
        answer.target = rimf_moved_to(c->image, call->names);
    }
    return answer;
}

static const struct answer *answer_of(const struct moving *c, const struct call *call)
{
    size_t at = (call->names >> 3) * 0x9e3779b97f4a7c15u >> 32;
    struct answer *answer = &c->answers->answers[at & c->answers->mask];

    if (answer->names != call->names || (answer->slot & ~(uintptr_t)ENDS) != call->slot)
        *answer = ask(c, call);
    return answer;
}

static int move_call(struct moving *c, const struct analysis_call *listed)
{
    uint8_t *at = moving_byte(c, listed->address);
    const struct answer *answer;
    struct call call;

    if (!at) {
        c->object->calls_unmoved++;
        return 0;
    }
    if (!site_read_any(&call.site, (enum mvld_reference_kind)analysis_call_kind(listed), (uintptr_t)at))
        return moving_refuse(c, "a call is not what the analysis says, nor what a pass made of it");
    call.names = call.site.target - (uintptr_t)c->distance;
    call.slot = c->bias + analysis_slot(listed);
    answer = answer_of(c, &call);
    c->object->calls_moved++;
    if (answer->why)
        rimf_edit_left(c->object->edit, answer->why, 1);
    if (!answer->target || !site_make(&call.site, answer->target))
        return moving_target(c, at + call.site.length - 4, (uintptr_t)at + call.site.length, call.names);
    c->object->calls_made += answer->slot & ENDS;
    memcpy(at, &call.site.made, 4); /* five bytes, or six */
    memcpy(at + call.site.length - 4, (const uint8_t *)&call.site.made + call.site.length - 4, 4);
    return 0;
}

/* A call of a function of a single instruction. */
static int move_single(struct moving *c, const struct analysis_call *listed)
{
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
int move_calls(struct moving *c)
{
    const struct analysis *s = c->analysis;
    size_t unit = 0;
    int error = 0;

    c->object->calls_moved = c->object->calls_made = c->object->calls_unmoved = 0;
    for (size_t i = 0; i < s->n_calls && !error; i++) {
        if (i + AHEAD < s->n_calls) /* a guess where there are fragments */
            __builtin_prefetch((const void *)(c->bias + s->calls[i + AHEAD].address +
                                              (uintptr_t)c->distance), 1);
        while (s->calls[i].address - s->units[unit].start >= s->units[unit].size)
            unit++; /* the reader saw to it that there is one */
        if (s->units[unit].reason != ANALYSIS_PROVEN)
            c->object->calls_unmoved++;
        else if (analysis_call_kind(&s->calls[i]) == ANALYSIS_CALL_SINGLE)
            error = move_single(c, &s->calls[i]);
        else
            error = move_call(c, &s->calls[i]);
    }
    c->object->calls_direct |= c->object->calls_made != 0;
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
