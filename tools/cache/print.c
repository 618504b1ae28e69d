/* SPDX-License-Identifier: MIT
 *
 * cache/print.c: see cache/print.h.
 */
#include "tools/cache/print.h"

#include <stdlib.h>
#include <string.h>

const char *cache_state_name(enum cache_state state)
{
    static const char *const names[] = {"good", "stale", "out of date", "other mvld", "damaged"};

    return names[state];
}

double cache_mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static uint32_t count_overlays(const struct manifest *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->header->n_objects; i++)
        n += m->names[m->objects[i].overlay_name] != '\0';
    return n;
}

static uint64_t count_code(const struct manifest *m)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < m->header->n_texts; i++)
        bytes += m->texts[i].size;
    return bytes;
}

/* ---- text ------------------------------------------------------------------------------- */

/* Prints objects of dlopen. */
static void print_later(const struct manifest *later)
{
    uint32_t gone = 0;

    for (uint32_t i = 0; i < later->header->n_objects; i++) {
        char *why = cached_other_file(later->names + later->objects[i].name, &later->objects[i].file);

        gone += why != NULL;
        free(why);
    }
    printf(", %u files of dlopen, code of %u", later->header->n_objects, count_overlays(later));
    if (gone)
        printf(", %u out of date", gone);
}

static void print_start(const struct cached *c)
{
    const struct manifest *m = &c->file.view;

    printf("  %.1f MiB of code of %u of %u files, %u calls relied on", cache_mib(count_code(m)), count_overlays(m),
           m->header->n_objects, m->header->n_words);
    if (m->region)
        printf(", %.1f MiB moved in %u fragments", cache_mib(m->region->pieces[MANIFEST_CODE].size),
               m->header->n_fragments);
    if (c->later.map)
        print_later(&c->later.view);
    if (m->names[m->header->launch_key]) {
        fputs(", of starts with ", stdout);
        print_name(stdout, m->names + m->header->launch_key);
    }
}

static void print_text(const struct cache_item *item, const struct cached *c)
{
    const struct manifest *m = &c->file.view;

    printf("%-12s", cache_state_name(c->state));
    if (!c->file.map) {
        printf("%s: %s\n", c->path, c->why);
        return;
    }
    print_name(stdout, m->names + m->objects[0].name);
    print_start(c);
    printf("; on disk %.1f MiB", cache_mib(item->size));
    if (c->why) {
        fputs("; ", stdout);
        print_name(stdout, c->why);
    }
    putchar('\n');
}

/* ---- JSON ------------------------------------------------------------------------------- */

static void begin(struct json *j, const struct cache_item *item, enum cache_state state, const char *object)
{
    static const char *const kinds[] = {"snapshot", "analysis"};

    json_begin(j, NULL, '{');
    json_string(j, "path", item->path);
    json_string(j, "kind", kinds[item->kind]);
    json_string(j, "state", cache_state_name(state));
    json_string(j, "object", object);
    json_unsigned(j, "size", item->size);
    json_signed(j, "used", item->used);
}

static void end(struct json *j, const char *why, const char *remedy)
{
    json_string(j, "why", why);
    json_string(j, "remedy", remedy);
    json_end(j, '}');
}

static void print_json(struct json *j, const struct cache_item *item, const struct cached *c)
{
    const struct manifest *m = c->file.map ? &c->file.view : NULL;
    char *remedy = c->state == CACHE_GOOD ? NULL : cached_remedy(c);

    begin(j, item, c->state, m ? m->names + m->objects[0].name : NULL);
    json_unsigned(j, "code", m ? count_code(m) : 0);
    json_string(j, "launch", m && m->names[m->header->launch_key] ? m->names + m->header->launch_key : NULL);
    json_begin(j, "lacks", '[');
    for (uint32_t i = 0; m && i < m->header->n_objects; i++)
        if (cached_lacks(c, i))
            json_string(j, NULL, m->names + m->objects[i].name);
    json_end(j, ']');
    end(j, c->why, remedy);
    free(remedy);
}

/* ---- either ----------------------------------------------------------------------------- */

void cache_print(struct json *j, const struct cache_item *item, const struct cached *c)
{
    if (j)
        print_json(j, item, c);
    else
        print_text(item, c);
}

void cache_print_analysis(struct json *j, const struct cache_item *item, const struct cached_analysis *c)
{
    if (j) {
        begin(j, item, c->state, c->file.map ? analysis_path_of(&c->file.view) : NULL);
        end(j, c->why, NULL);
    } else if (c->state != CACHE_GOOD) {
        printf("%-12s%s: analysis, on disk %.1f MiB; ", cache_state_name(c->state), item->path, cache_mib(item->size));
        print_name(stdout, c->why);
        putchar('\n');
    }
}

void cache_print_unfinished(struct json *j, const struct cache_item *item, const char *stays)
{
    const char *why = stays ? stays : CACHE_STOPPED;

    if (!j) {
        printf("%-12s%s: %s\n", "unfinished", item->path, why);
        return;
    }
    json_begin(j, NULL, '{');
    json_string(j, "path", item->path);
    json_string(j, "kind", "snapshot");
    json_string(j, "state", "unfinished");
    json_unsigned(j, "size", item->size);
    end(j, why, stays ? NULL : "mvld cache prune");
}

void cache_print_removed(struct json *j, const struct cache_item *item, const char *state, const char *why)
{
    json_begin(j, NULL, '{');
    json_string(j, "path", item->path);
    json_string(j, "state", state);
    json_unsigned(j, "size", item->size);
    json_string(j, "why", why);
    json_end(j, '}');
}
