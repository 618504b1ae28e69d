/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/tabled.c: finds functions whose address only vtables contain.
 *
 * Code that looks up the object of one of its own functions with dl_iterate_phdr (object.c) has the
 * function's address from its code: lea, or a word that code reads.  So in such an object these functions
 * keep their original addresses.  C++ cannot take the address of a virtual function (&C::f is a number in a
 * table): it is called through the object's vtable, and its canonical address may be in moved code, which
 * saves a JVM a jump for most of its calls.  A vtable is in RELRO, with this layout:
 *
 *     -16   how far the object begins before this part of it: 0, or a negative number
 *     -8    its type: a pointer to data; 0 with -fno-rtti
 *     0     functions, one after the other; a pure one may be another object's, or 0
 *
 * Code has the address of its start, or of its functions' start, and of no later word.  Tables of other
 * kinds may look the same; for these only one thing is known: nothing names one of their words alone.  A
 * function keeps its address if anything but such a table contains it: another word, lea of any code, an
 * exported symbol.
 */
#include "rimf/analyze/analyser.h"

#define PART_MOST (1 << 24) /* limit on the size of an object */

struct tables {
    struct analyser *a;
    const struct pointer *words; /* all relocated words */
    size_t n;
    struct vector addressed; /* uint32_t, sorted: addresses in code, in a word, or exported */
    uint32_t start, end;     /* RELRO */
};

static const struct pointer *word_at(const struct tables *t, uint32_t place)
{
    return object_word_at(&t->a->object, place);
}

/* The function whose start a relocated word points to, or NULL. */
static struct unit *function_of(const struct tables *t, const struct pointer *word)
{
    struct unit *u = word && word->target ? unit_at(t->a, word->target) : NULL;

    return u && u->start == word->target ? u : NULL;
}

static struct unit *function_at(const struct tables *t, uint32_t place)
{
    return place >= t->start && place < t->end && t->end - place >= 8
               ? function_of(t, word_at(t, place))
               : NULL;
}

/* The content in the file of a word that is not relocated.  1, or 0: there is none. */
static int number_at(const struct tables *t, uint32_t place, int64_t *number)
{
    const uint8_t *at = object_at(&t->a->object, place, sizeof *number);

    if (!at || word_at(t, place))
        return 0;
    memcpy(number, at, sizeof *number);
    return 1;
}

static int is_read(const struct tables *t, uint32_t place)
{
    return has_address(&t->a->read, place);
}

static int is_addressed(const struct tables *t, uint32_t place)
{
    return has_address(&t->addressed, place) || is_read(t, place);
}

/* Whether a table begins with the function at `place`. */
static int begins(const struct tables *t, uint32_t place)
{
    const struct pointer *type;
    int64_t number;

    if (place < t->start + 16 || !function_at(t, place) || is_read(t, place) ||
        is_read(t, place - 16) || is_addressed(t, place - 8))
        return 0;
    if (!number_at(t, place - 16, &number) || number > 0 || number % 8 || number < -PART_MOST)
        return 0;
    type = word_at(t, place - 8);
    return type ? !code_at(t->a, type->target) : number_at(t, place - 8, &number) && !number;
}

/* A pure virtual function: 0, or another object's. */
static int is_pure(const struct tables *t, uint32_t place)
{
    const struct pointer *word = word_at(t, place);
    int64_t number;

    return word ? !word->target : number_at(t, place, &number) && !number;
}

/* Behind its last function. */
static uint32_t end_of(const struct tables *t, uint32_t place)
{
    uint32_t at = place + 8;

    for (; !is_addressed(t, at); at += 8)
        if (!function_at(t, at) &&
            !(is_pure(t, at) && !is_addressed(t, at + 8) && function_at(t, at + 8)))
            break;
    return at;
}

static void keep_start(const struct analyser *a, uint32_t address)
{
    struct unit *u = unit_at(a, address);

    if (u)
        u->kept = 1;
}

/* Called once for functions in tables (`tabled`: they need not keep their addresses), and once for words
 * outside. */
static void each_word(const struct tables *t, int tabled)
{
    uint32_t end = 0; /* of the last table */

    for (size_t i = 0; i < t->n; i++) {
        const struct pointer *word = &t->words[i];
        struct unit *u;

        if (word->from >= end && begins(t, word->from))
            end = end_of(t, word->from);
        u = function_of(t, word);
        if (word->from >= end && !tabled)
            keep_start(t->a, word->target);
        else if (word->from < end && tabled && u)
            u->kept = 0;
    }
}

static void add_addressed(struct tables *t)
{
    const struct taken *taken = t->a->taken.at;
    const uint32_t *named = t->a->object.named.at;

    for (size_t i = 0; i < t->a->taken.n; i++)
        VECTOR_ADD(&t->addressed, uint32_t, taken[i].target);
    for (size_t i = 0; i < t->n; i++)
        VECTOR_ADD(&t->addressed, uint32_t, t->words[i].target);
    for (size_t i = 0; i < t->a->object.named.n; i++)
        VECTOR_ADD(&t->addressed, uint32_t, named[i]);
    sort_addresses(&t->addressed);
}

void keep_untabled(struct analyser *a)
{
    const Elf64_Phdr *relro = object_phdr_last(&a->object, PT_GNU_RELRO);
    struct tables t = {.a = a, .words = a->object.words.at, .n = a->object.words.n};
    const struct taken *taken = a->taken.at;
    const uint32_t *named = a->object.named.at;

    for (size_t i = 0; i < a->units.n; i++)
        units_of(a)[i].kept = 1;
    if (!relro || relro->p_vaddr > UINT32_MAX || relro->p_memsz > UINT32_MAX - relro->p_vaddr)
        return;
    t.start = (uint32_t)relro->p_vaddr;
    t.end = t.start + (uint32_t)relro->p_memsz;
    sort_addresses(&a->read);
    add_addressed(&t);
    if (t.addressed.failed) {
        a->taken.failed = 1;
    } else {
        each_word(&t, 1);
        each_word(&t, 0);
        for (size_t i = 0; i < a->taken.n; i++)
            keep_start(a, taken[i].target);
        for (size_t i = 0; i < a->object.named.n; i++)
            keep_start(a, named[i]);
    }
    vector_free(&t.addressed);
}
