/* SPDX-License-Identifier: MIT
 *
 * request.c: handles requests of `mvld switch -p PID`.
 *
 * The tool makes a thread that waits in a system call call multiverse_request(), as if the program
 * had called it there.  Request and answer are text, so that a tool and a library of different
 * builds understand each other, or can say that they do not.
 *
 *     request  list
 *     answer   s NAME ADDRESS WIDTH FLAGS VALUE BOUND FUNCTIONS
 *              f NAME OBJECT ADDRESS KIND VARIANTS SITES ACTIVE OUTCOME WHY SWITCH…
 *
 *     request  commit ADDRESS=VALUE:NAME… also revert, keep: which is done behind the writes
 *     answer   CHANGED UNCHANGED GENERIC REFUSED, and the report
 *
 * with a tab between fields and a newline after each line.  Values are 64 bits in hexadecimal.
 * Without an ADDRESS everything is committed or reverted.  If a function is refused, or any commit
 * fails, the switches get their old values back, and functions are bound as they were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/multiverse/library/library.h"

#define SWITCHES_MAX 64 /* in one request */

struct answer {
    char *at;
    size_t room;
    int is_short;
};

static void __attribute__((format(printf, 2, 3))) say(struct answer *answer, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(answer->at, answer->room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= answer->room) {
        answer->is_short = 1;
        return;
    }
    answer->at += n;
    answer->room -= (size_t)n;
}

/* ---- list */

static const char *kind_of(const struct multiverse_info_fn *fn)
{
    return fn->is_constant ? "constant" : fn->is_pointer ? "pointer" : "function";
}

static void say_switches(struct answer *answer, const struct mv_item *item)
{
    for (size_t i = 0; i < item->n_guards; i++) {
        size_t before = 0;

        while (before < i && item->guards[before] != item->guards[i])
            before++;
        if (before == i && item->guards[i])
            say(answer, "\t%s", item->guards[i]->name ? item->guards[i]->name : "");
    }
    say(answer, "\n");
}

static void say_item(void *cookie, const struct mv_item *item)
{
    static const char *const outcomes[] = {"unchanged", "changed", "generic", "refused"};
    const struct multiverse_info_var *var = item->var;
    const struct multiverse_info_fn *fn = item->fn;
    struct answer *answer = cookie;

    if (var) {
        say(answer, "s\t%s\t%p\t%u\t%x\t%lx\t%d\t%zu\n", var->name, var->location, var->width, item->flags,
            item->value, var->is_bound, var->n_functions);
        return;
    }
    say(answer, "f\t%s\t%s\t%p\t%s\t%zu\t%zu\t%s\t%s\t%s", fn->name, item->object, fn->function, kind_of(fn),
        fn->n_variants, fn->n_callsites,
        fn->active_name ? fn->active_name : fn->active ? "bound" : "", outcomes[fn->outcome],
        fn->why ? fn->why : "");
    say_switches(answer, item);
}

/* ---- commit, revert, keep */

struct write {
    const struct multiverse_info_var *var;
    uint64_t value, before;
    int was_bound; /* some function that reads the switch */
};

struct writes {
    struct write at[SWITCHES_MAX];
    int n;
};

static void store_value(void *to, unsigned width, uint64_t value)
{
    switch (width) {
    case 1: __atomic_store_n((uint8_t *)to, (uint8_t)value, __ATOMIC_RELAXED); break;
    case 2: __atomic_store_n((uint16_t *)to, (uint16_t)value, __ATOMIC_RELAXED); break;
    case 4: __atomic_store_n((uint32_t *)to, (uint32_t)value, __ATOMIC_RELAXED); break;
    case 8: __atomic_store_n((uint64_t *)to, value, __ATOMIC_RELAXED); break;
    }
}

static uint64_t load_value(const void *from, unsigned width)
{
    uint64_t value = 0;

    memcpy(&value, from, width);
    return value;
}

/* A library may have been closed since the tool saw the list, and another one opened in its place. */
static int is_named(const struct multiverse_info_var *var, const char *name, size_t length)
{
    return var->name && strlen(var->name) == length && !memcmp(var->name, name, length);
}

/* Parses ADDRESS=VALUE:NAME…: 0, or -1; the library's error may have a sentence. */
static int parse_writes(const char *text, struct writes *writes)
{
    for (char *end; *text; text = end, writes->n++) {
        struct write *w = &writes->at[writes->n];
        uintptr_t address = strtoul(text, &end, 16);

        if (writes->n == SWITCHES_MAX || end == text || *end != '=')
            return -1;
        text = end + 1;
        w->value = strtoul(text, &end, 16);
        w->var = multiverse_info_var((void *)address);
        if (end == text || !w->var)
            return -1;
        if (*end == ':') { /* older tools say no name */
            const char *name = end + 1;

            end += strcspn(end, " ");
            if (!is_named(w->var, name, (size_t)(end - name)))
                return -1;
        }
        w->before = load_value(w->var->location, w->var->width);
        end += strspn(end, " ");
    }
    return 0;
}

static void see_bound(void *cookie, const struct mv_item *item)
{
    struct writes *writes = cookie;

    for (size_t i = 0; item->fn && item->fn->active && i < item->n_guards; i++)
        for (int k = 0; k < writes->n; k++)
            writes->at[k].was_bound |=
                item->guards[i] && item->guards[i]->address == (uintptr_t)writes->at[k].var->location;
}

/* Applies `refs` to each switch, or calls `all`, and adds each one's report to `reports`.  0, or -1: it failed, or functions
 * were refused. */
static int apply_to(const struct writes *writes, int (*refs)(void *), int (*all)(void), struct multiverse_status *sum,
                    struct answer *reports)
{
    for (int i = 0; i < writes->n || (!writes->n && !i); i++) {
        const struct multiverse_status *status;

        if ((writes->n ? refs(writes->at[i].var->location) : all()) < 0)
            return -1;
        say(reports, "%s", multiverse_report());
        status = multiverse_status();
        sum->n_changed += status->n_changed;
        sum->n_unchanged += status->n_unchanged;
        sum->n_generic += status->n_generic;
        sum->n_refused += status->n_refused;
    }
    return sum->n_refused ? -1 : 0;
}

static void take_back(const struct writes *writes)
{
    for (int i = writes->n; i-- > 0;)
        store_value(writes->at[i].var->location, writes->at[i].var->width, writes->at[i].before);
    for (int i = 0; i < writes->n; i++)
        (writes->at[i].was_bound ? multiverse_commit_refs : multiverse_revert_refs)(writes->at[i].var->location);
}

#define COUNTS_MAX 100 /* bytes of the line in front of the report */

/* `report` is in the buffer of `answer`, and becomes the text behind it. */
static void say_report(struct answer *answer, const char *report)
{
    size_t length = strlen(report);

    memmove(answer->at, report, length + 1);
    answer->at += length;
    answer->room -= length;
}

static int write_and_apply(const char *text, int (*refs)(void *), int (*all)(void), struct answer *answer)
{
    struct writes writes = {.n = 0};
    struct multiverse_status sum = {0, 0, 0, 0};
    struct answer reports;
    char *report;

    if (parse_writes(text, &writes) || mv_each(see_bound, &writes)) {
        say(answer, "%s", *multiverse_error() ? multiverse_error() : "the request is not understood");
        return -EINVAL;
    }
    if (answer->room <= COUNTS_MAX)
        return -ENOSPC;
    report = answer->at + COUNTS_MAX;
    *report = 0;
    reports = (struct answer){.at = report, .room = answer->room - COUNTS_MAX};
    for (int i = 0; i < writes.n; i++)
        store_value(writes.at[i].var->location, writes.at[i].var->width, writes.at[i].value);
    if (!all || !apply_to(&writes, refs, all, &sum, &reports)) {
        say(answer, "%zu\t%zu\t%zu\t%zu\n", sum.n_changed, sum.n_unchanged, sum.n_generic, sum.n_refused);
        say_report(answer, report);
        answer->is_short |= reports.is_short;
        return 0;
    }
    int err = sum.n_refused ? EBUSY : errno;

    if (sum.n_refused)
        say_report(answer, report);
    else
        say(answer, "%s", multiverse_error());
    take_back(&writes);
    return -err;
}

/* Returns 0 and the answer; or negative errno and a sentence.  -ENOSPC: the answer is longer than
 * `size`. */
int multiverse_request(const char *request, char *text, size_t size);
int multiverse_request(const char *request, char *text, size_t size)
{
    static const struct {
        const char *word;
        int (*refs)(void *), (*all)(void);
    } words[] = {{"commit", multiverse_commit_refs, multiverse_commit},
                 {"revert", multiverse_revert_refs, multiverse_revert},
                 {"keep", NULL, NULL}};
    struct answer answer = {.at = text, .room = size};
    int result = -ENOSYS, saved = errno;

    *text = 0;
    if (!strcmp(request, "list")) {
        result = mv_each(say_item, &answer) ? -errno : 0;
        if (result)
            say(&answer, "%s", multiverse_error());
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i].word);

        if (!strncmp(request, words[i].word, length) && (!request[length] || request[length] == ' '))
            result = write_and_apply(request + length + strspn(request + length, " "), words[i].refs,
                                     words[i].all, &answer);
    }
    if (answer.is_short)
        result = -ENOSPC;
    errno = saved;
    return result;
}

/* See link.c. */
int mv_library_request(const char *, char *, size_t)
    __attribute__((alias("multiverse_request"), visibility("hidden"), used));
