/* SPDX-License-Identifier: MIT
 *
 * list.c: lists functions, each place in code that a commit changes, what is in it, and what is in the way.
 */
#include "kernel/core/core.h"

struct list {
    void (*line)(void *cookie, uintptr_t at, const char *text);
    void *cookie;
    const struct mv_point *point;
};

static void add_line(const struct list *list, uintptr_t at, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    rimf_vformat(text, sizeof text, format, args);
    va_end(args);
    list->line(list->cookie, at, text);
}

/* ---- what a function is bound to */

static const char *name_of(const struct mv_point *point, const struct multiverse_variant *variant)
{
    return variant->name ? (const char *)point->record + variant->name : "without a name";
}

static void list_function(const struct list *list)
{
    const struct mv_point *p = list->point;
    const char *kind = mv_is_constant(p) ? "constant" : p->is_inline ? "inline call" : "function";

    if (p->variant >= 0)
        add_line(list, 0, "%s %s of %s: bound to %s", kind, p->name, p->unit->object->name,
                 name_of(p, &mv_variants(p)[p->variant]));
    else
        add_line(list, 0, "%s %s of %s: %s", kind, p->name, p->unit->object->name, p->target ? "bound" : "not bound");
    if (p->variant < 0 && p->target && !mv_is_constant(p))
        add_line(list, p->target, "the pointer's target");
}

static void list_variant(const struct list *list, const struct multiverse_variant *variant)
{
    const struct mv_point *p = list->point;
    char text[256] = "";
    size_t used = 0;

    for (size_t i = variant->first_guard; i < variant->first_guard + variant->n_guards && used < sizeof text; i++) {
        const struct multiverse_guard *guard = &mv_guards(p)[i];
        const char *format = guard->flags & MULTIVERSE_SWITCH_SIGNED ? " %s=%ld..%ld" : " %s=%lu..%lu";
        const char *name = p->guards[i] && p->guards[i]->name ? p->guards[i]->name : "?";

        used += rimf_format(text + used, sizeof text - used, format, name, guard->low, guard->high);
    }
    add_line(list, mv_distance(&variant->body), "variant %s:%s", name_of(p, variant), text);
}

/* ---- what is in its places */

/* What keeps the word from what it should be: negative errno, or 0. */
static int obstacle(const struct mv_unit *unit, size_t word)
{
    uint64_t now = unit->bytes[unit->now][word];
    int far = 0;
    struct mvk_change change = {.address = mv_word_address(unit, word), .expect = now,
                                .replace = mv_word_wanted(unit, word, &far), .length = unit->places[word].length};

    if (change.replace == now)
        return 0;
    if (unit->places[word].joined)
        return -EDEADLK;
    mvk_check_text(&change, 1);
    return change.result ? change.result : -EAGAIN;
}

static void list_place(const struct list *list, const struct mv_unit *unit, size_t word, const char *kind,
                       const char *changed)
{
    const char *state = unit->bytes[unit->now][word] == unit->original[word] ? "as linked" : changed;
    int err = list->point->dirty ? obstacle(unit, word) : 0;

    if (err)
        add_line(list, mv_word_address(unit, word), "%s, %s, refused: %s", kind, state,
                 err == -EAGAIN ? "the next operation tries again" : mv_why(-err));
    else
        add_line(list, mv_word_address(unit, word), "%s, %s", kind, state);
}

static void list_site(const struct list *list, const struct mv_site *site)
{
    const uint64_t *now = &site->unit->bytes[site->unit->now][site->word];
    struct mv_decoded call;

    if (site->kind == MV_READ)
        list_place(list, site->unit, site->word, "read", "holds the value");
    else
        list_place(list, site->unit, site->word, "call",
                   mv_site_decode((const uint8_t *)now, site->length, site->address, &call) ? "bound"
                                                                                            : "holds the body");
}

int mvk_list_places(struct mv_engine *engine, void (*line)(void *cookie, uintptr_t at, const char *text), void *cookie)
{
    int err = mv_read_sites(engine);

    for (struct mv_unit *u = engine->units; u && !err; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];
            const struct list list = {line, cookie, p};

            list_function(&list);
            for (size_t k = 0; !mv_is_constant(p) && k < p->record->n_variants; k++)
                list_variant(&list, &mv_variants(p)[k]);
            if (p->word != MV_NO_WORD)
                list_place(&list, u, p->word, p->is_inline ? "jump" : "entry", "bound");
            for (const struct mv_site *s = p->sites; s; s = s->next)
                list_site(&list, s);
        }
    return err;
}
