/* SPDX-License-Identifier: MIT
 *
 * rimf/emit/changes.c: a list of changes is given to the patch engine (emit/changes.h): as words, which it verifies and
 * writes in one sweep each if all is as usual, and otherwise one by one (patch/words.c).
 */
#include "rimf/emit/changes.h"

#include "rimf/base/base.h"
#include "rimf/patch/patch.h"

#include <errno.h> /* numbers only */

#define WORD_LEAST 4u
#define WORD_MOST 8u

static struct mvld_batch *batch_of(struct changes *c)
{
    if (!c->batch)
        c->batch = rimf_patch_begin(c->image);
    if (!c->batch)
        c->error = -ENOMEM;
    return c->batch;
}

/* Of 4 to 8 bytes. */
static uint64_t word_at(const uint8_t *bytes, size_t length)
{
    uint32_t first, last;

    memcpy(&first, bytes, sizeof first);
    memcpy(&last, bytes + length - sizeof last, sizeof last);
    return first | (uint64_t)last << 8 * (length - sizeof last);
}

static inline void put(struct changes *c, uintptr_t at, const uint8_t *old, const uint8_t *now, size_t length,
                       int joined)
{
    c->list[c->n++] = (struct change){at, word_at(old, length), word_at(now, length), (uint16_t)length,
                                      (uint16_t)joined};
}

/* A function of its own, so that the usual addition saves no registers. */
static __attribute__((noinline)) void add_parts(struct changes *c, uintptr_t at, const uint8_t *old, const uint8_t *now,
                                                size_t length)
{
    if (length < WORD_LEAST) { /* too short for a word */
        c->error = c->error || !batch_of(c) ? c->error : rimf_patch_add(c->batch, at, old, now, length);
        return;
    }
    for (size_t i = 0, n; i < length; i += n) {
        if (!RIMF_ONE_MORE(&c->image->heap, c->list, c->n, c->room, 256)) {
            c->error = -ENOMEM;
            return;
        }
        n = length - i;
        n = n <= WORD_MOST ? n : n < WORD_MOST + WORD_LEAST ? n - WORD_LEAST : WORD_MOST;
        put(c, at + i, old + i, now + i, n, i + n < length);
    }
}

void changes_add(struct changes *c, uintptr_t at, const void *old, const void *now, size_t length)
{
    if (c->n < c->room && length >= WORD_LEAST && length <= WORD_MOST)
        put(c, at, old, now, length, 0);
    else
        add_parts(c, at, old, now, length);
}

/* Ascending changes of the list, whose offsets from the first have 32 bits: of one object, as a rule. */
struct run {
    uintptr_t at; /* first: for rimf_sort */
    size_t first, n;
};

static size_t run_of(const struct changes *c, size_t first)
{
    const struct change *list = c->list;
    size_t i = first + 1;

    while (i < c->n && list[i].at >= list[i - 1].at && list[i].at - list[first].at <= UINT32_MAX)
        i++;
    return i - first;
}

static int add_run(struct changes *c, const struct run *run, struct mvld_word *words, uint64_t *old, uint64_t *now)
{
    const struct change *list = c->list + run->first;

    for (size_t i = 0; i < run->n; i++) {
        words[i] = (struct mvld_word){(uint32_t)(list[i].at - run->at), list[i].length, list[i].joined};
        old[i] = list[i].old;
        now[i] = list[i].now;
    }
    return rimf_patch_add_words(c->batch, run->at, words, old, now, run->n);
}

/* Adds all to the batch, runs by address.  Changes of two runs that overlap are refused by the engine. */
static int fill(struct changes *c)
{
    struct mvld_word *words = rimf_heap_alloc(&c->image->heap, c->n * (sizeof *words + 2 * sizeof(uint64_t)));
    uint64_t *old = (uint64_t *)(words + c->n), *now = old + c->n;
    struct run *runs = NULL;
    size_t n = 0, room = 0;
    int error = words ? 0 : -ENOMEM;

    c->words = words;
    for (size_t i = 0; i < c->n && !error; i += runs[n++].n) {
        if (!RIMF_ONE_MORE(&c->image->heap, runs, n, room, 16)) {
            error = -ENOMEM;
            break;
        }
        runs[n] = (struct run){c->list[i].at, i, run_of(c, i)};
    }
    if (!error)
        rimf_sort(runs, n, sizeof *runs);
    for (size_t i = 0; i < n && !error; i++) {
        size_t first = runs[i].first;

        error = add_run(c, &runs[i], words + first, old + first, now + first);
    }
    rimf_heap_release(&c->image->heap, runs);
    return error;
}

/* Changes back what was made of the batch. */
static void take_back(struct changes *c)
{
    struct changes back = {.image = c->image, .unentered = c->unentered};

    for (size_t i = 0; i < rimf_patch_count(c->batch); i++) {
        const struct mvld_patch *patch = rimf_patch_at(c->batch, i);

        if (!patch->result)
            changes_add(&back, patch->address, patch->replace, patch->expect, patch->length);
    }
    if (changes_each(&back) || back.refused)
        rimf_log(c->image->log, MVLD_LOG_WARNING, "mvld: code that a pass changed could not be changed back");
    changes_end(&back);
}

int changes_each(struct changes *c)
{
    struct mvld_patch_report report = {.refused = 0};

    if (!c->n && !c->batch && !c->error)
        return 0;
    if (c->n && !c->error && batch_of(c))
        c->error = fill(c);
    if (c->error)
        return rimf_fail(c->image, -c->error, "out of memory for patches");
    if (c->unentered)
        rimf_patch_unentered(c->batch);
    c->error = rimf_patch_commit(c->batch, &report);
    c->made = report.applied;
    c->refused = report.refused;
    return c->error;
}

/* Records where the first of them is. */
static void name_refused(void *changes, uintptr_t at)
{
    struct changes *c = changes;
    const struct mvld_object *object = rimf_object_find(c->image, at);

    if (c->at)
        return;
    c->at = at;
    rimf_fail(c->image, EBUSY, "%s: the bytes at %lx cannot be changed now", object ? object->name : "nowhere",
              (unsigned long)(at - (object ? object->bias : 0)));
}

int changes_all(struct changes *c)
{
    c->image->error[0] = '\0';
    if (!changes_each(c) && c->refused) {
        take_back(c);
        c->error = -EBUSY;
    }
    if (c->error == -EBUSY || c->error == -ESTALE)
        changes_refused(c, name_refused, c);
    else if (c->error && !c->image->error[0])
        rimf_fail(c->image, -c->error, "code cannot be changed now (error %d)", -c->error);
    return c->error;
}

void changes_refused(const struct changes *c, void (*visit)(void *cookie, uintptr_t at), void *cookie)
{
    for (size_t i = 0; i < rimf_patch_count(c->batch); i++)
        if (rimf_patch_at(c->batch, i)->result)
            visit(cookie, rimf_patch_at(c->batch, i)->address);
    for (size_t i = 0; i < c->n && !rimf_patch_count(c->batch) && c->error; i++)
        visit(cookie, c->list[i].at);
}

void changes_end(struct changes *c)
{
    rimf_patch_end(c->batch);
    rimf_heap_release(&c->image->heap, c->words);
    rimf_heap_release(&c->image->heap, c->list);
    *c = (struct changes){.image = c->image, .unentered = c->unentered};
}
