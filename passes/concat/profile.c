/* SPDX-License-Identifier: MIT
 *
 * profile.c: reads a profile, written by a person or by `mvld profile`:
 *
 *     # bash                                   hottest first; # and empty lines are ignored
 *     bash            +0x4a120                 an object, and an address in it as linked
 *     libc.so.6       malloc                   or a symbol that it exports
 *
 * An object is identified by its file name.  Lines whose object is not loaded, or lacks the symbol
 * or address, are skipped: one file may serve several programs, and survive an upgrade.  Any other
 * line is an error, and then no code moves.
 */
#include "concat.h"

#include <errno.h> /* numbers only */

#define HOT_AT_FIRST 256u

struct reading {
    const struct mvld_context *ctx;
    const char *path;
    const struct mvld_object *const *objects;
    size_t n_objects;
    struct concat_profile *profile;
    size_t room;
    unsigned line, unknown;
};

/* ---- lines ------------------------------------------------------------------------------- */

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line, ended with NUL, or NULL. */
static char *next_word(char **at)
{
    char *word = *at, *end;

    while (is_blank(*word))
        word++;
    for (end = word; *end && !is_blank(*end);)
        end++;
    *at = *end ? end + 1 : end;
    *end = '\0';
    return *word && *word != '#' ? word : NULL;
}

static int wrong(const struct reading *r, const char *what, const char *word)
{
    return r->ctx->api->fail(r->ctx->image, EINVAL, "concat: %s:%u: %s%s", r->path, r->line, what,
                             word);
}

/* "+0x1f": 0, or -EINVAL. */
static int read_offset(const char *word, uint64_t *offset)
{
    const char *digits = mvld_after(word, "+0x");

    *offset = 0;
    if (!digits || !*digits || mvld_strlen(digits) > 8)
        return -EINVAL;
    for (; *digits; digits++) {
        unsigned value = *digits >= '0' && *digits <= '9'   ? (unsigned)(*digits - '0')
                         : *digits >= 'a' && *digits <= 'f' ? (unsigned)(*digits - 'a') + 10
                         : *digits >= 'A' && *digits <= 'F' ? (unsigned)(*digits - 'A') + 10
                                                            : 16;

        if (value > 15)
            return -EINVAL;
        *offset = *offset << 4 | value;
    }
    return 0;
}

static int add_hot(struct reading *r, size_t object, uintptr_t original)
{
    struct concat_profile *p = r->profile;

    if (p->n == r->room) {
        size_t room = r->room ? 2 * r->room : HOT_AT_FIRST;
        struct concat_hot *hot = r->ctx->api->alloc(r->ctx->image, room * sizeof *hot);

        if (!hot)
            return r->ctx->api->fail(r->ctx->image, ENOMEM, "concat: out of memory");
        if (p->n)
            memcpy(hot, p->hot, p->n * sizeof *hot);
        r->ctx->api->release(r->ctx->image, p->hot);
        p->hot = hot;
        r->room = room;
    }
    p->hot[p->n++] = (struct concat_hot){object, original};
    return 0;
}

/* For each object with this name adds the address of a symbol in it; with NULL, of the offset.  A
 * missing one is no error. */
static int take_places(struct reading *r, const char *name, const char *place, uint64_t offset)
{
    int found = 0, error = 0;

    for (size_t i = 0; i < r->n_objects && !error; i++) {
        const struct mvld_object *object = r->objects[i];
        struct mvld_symbol symbol = {.address = object->bias + offset};

        if (mvld_strcmp(mvld_file_name(object->name), name))
            continue;
        found = 1;
        if (place && r->ctx->api->symbol_find(object, place, NULL, &symbol))
            r->unknown++;
        else
            error = add_hot(r, i, symbol.address);
    }
    r->unknown += !found;
    return error;
}

static int take_line(struct reading *r, char *line)
{
    char *name = next_word(&line), *place = name ? next_word(&line) : NULL;
    uint64_t offset = 0;

    if (!name)
        return 0;
    if (!place)
        return wrong(r, "an object without a function: ", name);
    if (next_word(&line))
        return wrong(r, "more than an object and a function: ", name);
    if (*place == '+' && read_offset(place, &offset))
        return wrong(r, "no offset like +0x1f: ", place);
    return take_places(r, name, *place == '+' ? NULL : place, offset);
}

static int take_text(struct reading *r, char *text)
{
    int error = 0;

    for (char *line = text, *end; *line && !error; line = end) {
        for (end = line; *end && *end != '\n';)
            end++;
        if (*end)
            *end++ = '\0';
        r->line++;
        error = take_line(r, line);
    }
    return error;
}

int concat_profile_read(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                        size_t n, struct concat_profile *profile)
{
    const struct mvld_setting *said = &ctx->settings[CONCAT_PROFILE];
    struct reading r = {.ctx = ctx, .path = said->text, .objects = objects, .n_objects = n,
                        .profile = profile};
    size_t size;
    char *text;
    int error;

    *profile = (struct concat_profile){0};
    if (!*said->text)
        return ctx->api->fail(ctx->image, EINVAL,
                              "concat: order = profile needs a file: profile = PATH");
    text = ctx->api->file_read(ctx, said, &size);
    if (!text)
        return -EIO;
    error = take_text(&r, text);
    ctx->api->release(ctx->image, text);
    if (!error && r.unknown)
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: %s: %u of %u lines name nothing here",
                      said->text, r.unknown, r.line);
    return error;
}
