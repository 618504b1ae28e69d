/* SPDX-License-Identifier: MIT
 *
 * loader/config/block.c: [app] blocks.
 *
 * A file is walked once, to check its syntax and to find its matching [app] blocks, whose keys are then read.
 */
#include "rimf/base/base.h"
#include "loader/config/config.h"

#include <errno.h>

/* The keys of [app], in the order of `seen` below; match comes first. */
static const char *const app_keys[] = {"match", "passes", "placement", "patch", "on-miss",
                                       "slot-writers"};
static const char *const placements[] = {"near", "huge", "as-is", NULL};
static const char *const misses[] = {"plain", "transform", "build", "learn", NULL};
static const char *const patch_methods[] = {"auto", "mprotect", "remap", "selfmem", NULL};

/* A slice for a sentence, as "%.*s": its beginning, if it is long. */
#define SHOW(slice) (int)((slice).length < 48 ? (slice).length : 48), (slice).at

/* Converts an element of `match` to text.  0, or -EINVAL with the sentence. */
static int match_text(struct ini_slice element, char *text, const char *file, unsigned line,
                      const struct why *why)
{
    const char *hex;

    if (ini_text(element, text) <= 0)
        return refuse_at(why, EINVAL, file, line, "an element of 'match' is empty");
    if (rimf_streq(text, "*"))
        return 0;
    hex = rimf_after(text, CONFIG_BUILD_ID);
    if (hex) {
        size_t n = rimf_strlen(hex), i = 0;
        while (rimf_digit(hex[i]) < 16)
            i++;
        if (!n || i < n || n % 2)
            return refuse_at(why, EINVAL, file, line,
                             "'%.*s' is no build-id: an even number of hexadecimal digits", SHOW(element));
        return 0;
    }
    if (element.at[0] != '"')
        for (size_t i = 0; text[i]; i++)
            if (text[i] == '*')
                return refuse_at(why, EINVAL, file, line,
                                 "'%.*s': there are no patterns, '*' alone means every program", SHOW(element));
    if (text[0] != '/' && rimf_strrchr(text, '/'))
        return refuse_at(why, EINVAL, file, line,
                         "'%.*s' is neither an absolute path nor a name without '/'", SHOW(element));
    return 0;
}

const char *pipeline_program(const struct pipeline_query *query)
{
    return query->program || !query->find_program ? query->program : query->find_program(query->cookie);
}

const uint8_t *pipeline_build_id(const struct pipeline_query *query, size_t *size)
{
    *size = query->build_id_size;
    return query->build_id || !query->find_build_id ? query->build_id : query->find_build_id(query->cookie, size);
}

/* Returns 1 if `text`, a path or a name without folder, names the file at `path`. */
static int names(const char *path, const char *text)
{
    return path && rimf_streq(text, text[0] == '/' ? path : rimf_file_name(path));
}

/* The caller chooses argv[0], so a program with more rights than its caller is identified by its
 * real path alone. */
static int program_is(const struct pipeline_query *q, const char *text)
{
    const char *hex = rimf_after(text, CONFIG_BUILD_ID);
    const uint8_t *build_id;
    size_t size;

    if (rimf_streq(text, "*"))
        return 1;
    if (hex) {
        build_id = pipeline_build_id(q, &size);
        if (!build_id || rimf_strlen(hex) != 2 * size)
            return 0;
        for (size_t i = 0; i < size; i++)
            if (rimf_digit(hex[2 * i]) * 16 + rimf_digit(hex[2 * i + 1]) != build_id[i])
                return 0;
        return 1;
    }
    if (!q->secure && (names(q->name, text) || names(q->called, text)))
        return 1;
    return names(pipeline_program(q), text);
}

static int one_of(struct ini_slice key, struct ini_slice value, const char *const *words,
                  const char *file, unsigned line, const struct why *why)
{
    char list[64];

    for (size_t i = 0; words[i]; i++)
        if (ini_is(value, words[i]))
            return 0;
    config_list_words(words, list, sizeof(list));
    return refuse_at(why, EINVAL, file, line, "'%.*s' is no %.*s; it is one of %s", SHOW(value), SHOW(key), list);
}

static int check_passes(struct ini_slice list, const char *file, unsigned line,
                        const struct why *why)
{
    struct ini_slice element, other;

    while (ini_list_next(&list, &element)) {
        if (!ini_is_name(element) || ini_is(element, "app"))
            return refuse_at(why, EINVAL, file, line, "'%.*s' is no name of a pass", SHOW(element));
        for (struct ini_slice rest = list; ini_list_next(&rest, &other);)
            if (element.length == other.length && !memcmp(element.at, other.at, other.length))
                return refuse_at(why, EINVAL, file, line, "the pass '%.*s' is in the pipeline twice", SHOW(element));
    }
    return 0;
}

static int check_files(struct ini_slice list, const char *file, unsigned line, const struct why *why)
{
    struct ini_slice element;

    while (ini_list_next(&list, &element))
        for (size_t i = 0; i <= element.length; i++)
            if (!element.length || (i < element.length && (element.at[i] == '/' || element.at[i] == '"')))
                return refuse_at(why, EINVAL, file, line, "'%.*s' is no beginning of a file's name", SHOW(element));
    return 0;
}

static size_t app_key(struct ini_slice key)
{
    size_t i = 0;

    while (i < RIMF_COUNT(app_keys) && !ini_is(key, app_keys[i]))
        i++;
    return i;
}

int config_check_app(struct ini_slice key, struct ini_slice value, const char *file, unsigned line,
                     const struct why *why)
{
    switch (app_key(key)) {
    case 0:
        return refuse_at(why, EINVAL, file, line, "app.match cannot be set: the program is this one");
    case 1:
        return check_passes(value, file, line, why);
    case 2:
        return one_of(key, value, placements, file, line, why);
    case 3:
        return one_of(key, value, patch_methods, file, line, why);
    case 4:
        return one_of(key, value, misses, file, line, why);
    case 5:
        return check_files(value, file, line, why);
    default:
        return refuse_at(why, EINVAL, file, line,
                         "[app] has no key '%.*s'; it has match, passes, placement, patch, on-miss, slot-writers", SHOW(key));
    }
}

/* ---- the walk over a file --------------------------------------------------- */

struct scan {
    const struct pipeline_query *query;
    struct rimf_heap *heap;
    const struct config_text *text;
    struct config *config;
    const struct why *why;
    const char *start; /* of the present block, or NULL before the first */
    unsigned line;     /* line of its start */
    int in_app;        /* in [app] itself, not in a section of a pass */
    unsigned seen;     /* bit i: app_keys[i] was set */
    struct ini_slice matched;
};

static int end_block(struct scan *s, const char *end)
{
    if (!s->start)
        return 0;
    if (!(s->seen & 1))
        return refuse_at(s->why, EINVAL, s->text->file, s->line,
                         "this [app] does not say which program: it has no 'match'");
    if (!s->matched.at)
        return 0;
    *s->config = (struct config){
        .file = rimf_heap_copy(s->heap, s->text->file),
        .line = s->line,
        .match = rimf_heap_copy_part(s->heap, s->matched.at, s->matched.length),
    };
    if (!s->config->file || !s->config->match)
        return config_no_memory(s->why);
    return config_load(s->heap, s->start, (size_t)(end - s->start), s->config, s->why);
}

static int on_section(struct scan *s, const struct ini_item *item)
{
    if (!ini_is(item->name, "app")) {
        s->in_app = 0;
        if (s->start)
            return 0;
        return refuse_at(s->why, EINVAL, s->text->file, item->line,
                         "[%.*s] belongs to no program: an [app] must come before it", SHOW(item->name));
    }
    int error = end_block(s, item->start);
    s->start = item->start;
    s->line = item->line;
    s->in_app = 1;
    s->seen = 0;
    s->matched = (struct ini_slice){0};
    return error;
}

/* Checks all elements, and finds the first that names the program. */
static int match(struct scan *s, const struct ini_item *item)
{
    struct ini_slice list = item->value, element;
    int error = 0;

    if (!list.length)
        return refuse_at(s->why, EINVAL, s->text->file, item->line, "'match' is empty");
    while (!error && ini_list_next(&list, &element)) {
        char *text = rimf_heap_alloc(s->heap, element.length + 1);

        error = text ? match_text(element, text, s->text->file, item->line, s->why) : config_no_memory(s->why);
        if (!error && !s->matched.at && program_is(s->query, text))
            s->matched = element;
        rimf_heap_release(s->heap, text);
    }
    return error;
}

static int on_key(struct scan *s, const struct ini_item *item)
{
    const char *file = s->text->file;
    size_t index;

    if (!s->start)
        return refuse_at(s->why, EINVAL, file, item->line,
                         "'%.*s' stands before the first [app]", SHOW(item->name));
    if (!s->in_app)
        return 0; /* the pass checks its keys, this reader does not */
    index = app_key(item->name);
    int error = index == 0 ? match(s, item) : config_check_app(item->name, item->value, file, item->line, s->why);
    if (error)
        return error;
    if (s->seen & (1u << index))
        return refuse_at(s->why, EINVAL, file, item->line, "'%s' is said twice in this [app]",
                         app_keys[index]);
    s->seen |= 1u << index;
    return 0;
}

int config_scan(const struct pipeline_query *query, struct rimf_heap *heap,
                const struct config_text *text, struct config *config, const struct why *why)
{
    struct scan s = {.query = query, .heap = heap, .text = text, .config = config, .why = why};
    struct ini_item item;
    struct ini ini;
    const char *phrase;

    ini_begin(&ini, text->text, text->length, 1);
    for (;;) {
        if (ini_next(&ini, &item, &phrase))
            return refuse_at(why, EINVAL, text->file, item.line, "%s", phrase);
        int error = 0;
        if (item.kind == INI_END)
            return end_block(&s, item.start);
        error = item.kind == INI_SECTION ? on_section(&s, &item) : on_key(&s, &item);
        if (error)
            return error;
    }
}
