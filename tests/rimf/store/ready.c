/* SPDX-License-Identifier: MIT
 *
 * The tables of ready code (rimf/store/ready.c).  A failure means that damaged ones are taken, or
 * whole ones are not.
 */
#include "../../check.h"
#include "../base/each_byte.h"
#include "made_ready.h"

static struct made_ready made;

static const char *open_made(size_t size)
{
    struct ready r;
    const char *why = NULL;
    int error = ready_open(&r, &made, size, &why);

    CHECK(!error == !why);
    CHECK(error || !strcmp(r.program, "/bin/two"), "'%s'", r.program);
    CHECK(error || (r.header == &made.header && r.texts == made.texts && r.rest == made.rest &&
                    r.slots == made.slots && r.name == made.name));
    CHECK(!error || (!r.header && !r.slots));
    return why;
}

static void each_rule(void)
{
    static const char version[] = "it is of another version of the format";
    static const char cut[] = "it is cut short, or longer than it says";
    static const char nothing[] = "it has no code, or no name";
    static const char ranges[] = "a text is no range of pages";
    static const char order[] = "the texts are not in order";
    static const char slots[] = "the slots are not in order";
    static const char no_code[] = "a slot leads to no code of the object";
    static const char kind[] = "a call is of a kind that does not exist";
    static const char calls[] = "the calls overlap, or lie outside the code";
    struct { void *at; size_t size; uint64_t value; const char *sentence; } const spoilt[] = {
#define SPOIL(field, value, sentence) {&made.field, sizeof made.field, (uint64_t)(value), sentence}
        SPOIL(header.magic[0], 'm', "it is no ready code"),
        SPOIL(header.version, 99, version),
        SPOIL(header.header_size, 56, version),
        SPOIL(header.n_rest, 4, cut),
        SPOIL(header.n_slots, ~0, cut),
        SPOIL(header.reach, READY_REACHES, nothing),
        SPOIL(name[23], 'x', nothing),
        SPOIL(header.name_size, 8, cut),
        SPOIL(texts[0].object, 1, order),
        SPOIL(texts[1].linked, 0x2000, order),
        SPOIL(texts[1].size, 0x10, ranges),
        SPOIL(texts[1].linked, 1ul << 33, ranges),
        SPOIL(texts[1].offset, 0x7000, "a text lies outside its copy"),
        SPOIL(slots[0].slot, 0, slots),
        SPOIL(slots[0].slot, 0x8008, slots),
        SPOIL(slots[1].slot, 0x800c, slots),
        SPOIL(slots[1].calls, 0, slots),
        SPOIL(slots[1].calls, READY_LEFT, slots),
        SPOIL(slots[1].calls, READY_LEFT | 1, no_code),
        SPOIL(slots[0].leads, 0xfff, no_code),
        SPOIL(slots[0].leads, -0x1000, no_code),
        SPOIL(slots[0].leads, 0x3000, no_code),
        SPOIL(slots[1].leads, 0x7000, no_code),
        SPOIL(slots[1].leads, (1ul << 32) + 0x1010, no_code),
        SPOIL(rest[0].slot_and_kind, 0x8000, kind),
        SPOIL(rest[0].slot_and_kind, 0x8007, kind),
        SPOIL(rest[0].slot_and_kind, ANALYSIS_CALL_PLT, kind),
        SPOIL(rest[1].slot_and_kind, 0x8000 | ANALYSIS_CALL_SINGLE, kind),
        SPOIL(rest[1].address, 0x1004, calls),
        SPOIL(rest[1].address, 0x2ffc, calls),
        SPOIL(rest[2].address, 0x6ffb, calls),
        SPOIL(rest[2].address, ~0, calls),
        SPOIL(rest[0].address, 0xfff, calls),
#undef SPOIL
    };

    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        const char *why;

        memcpy(spoilt[i].at, &spoilt[i].value, spoilt[i].size);
        made_ready_seal(&made, sizeof made);
        why = open_made(sizeof made);
        CHECK(why && !strcmp(why, spoilt[i].sentence), "%zu: '%s' instead of '%s'", i,
              why ? why : "(taken)", spoilt[i].sentence);
        made_ready_make(&made);
    }
}

/* One name alone, with nothing behind it. */
static void one_name(void)
{
    memset(made.name, 'x', sizeof made.name - 1);
    made.name[sizeof made.name - 1] = 0;
    made_ready_seal(&made, sizeof made);
    CHECK(open_made(sizeof made), "no name of the program");
    made_ready_make(&made);
}

/* Where all calls are direct, slots lead to other objects, or nowhere. */
static void all_calls(void)
{
    made.header.reach = READY_ALL;
    made.slots[0].leads = -0x1000;
    made.slots[1].calls |= READY_LEFT;
    made_ready_seal(&made, sizeof made);
    CHECK(!open_made(sizeof made), "%s", open_made(sizeof made));
    CHECK(ready_calls(&made.slots[1]) == 1);
    made.slots[1].calls = READY_LEFT;
    made_ready_seal(&made, sizeof made);
    CHECK(open_made(sizeof made), "a slot without calls");
    made_ready_make(&made);
}

int main(void)
{
    made_ready_make(&made);
    CHECK(!open_made(sizeof made), "%s", open_made(sizeof made));
    all_calls();
    one_name();
    each_byte_counts(&made, sizeof made, open_made);
    each_rule();
    return 0;
}
