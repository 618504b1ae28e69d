/* SPDX-License-Identifier: MIT
 *
 * loader/config_made.c: what `mvld config` makes: the text of all files of a folder, one behind
 * the other.  Before each stands a line with its name, which no line of a configuration looks
 * like, because no key has a blank in it:
 *
 *     @ /etc/mvld/apps.d/redis.conf
 *
 * So whatever is said of a line names the file that people wrote, and its line there.
 */
#include "base.h"
#include "config.h"

#include <errno.h>

static const char *line_end(const char *p, const char *end)
{
    while (p < end && *p != '\n')
        p++;
    return p;
}

static int is_mark(const char *p, const char *end)
{
    return end - p > 2 && p[0] == CONFIG_MARK[0] && p[1] == CONFIG_MARK[1];
}

/* The next line with a file's name behind this line, or the end. */
static const char *next_mark(const char *p, const char *end)
{
    do {
        p = line_end(p, end);
        p += p < end;
    } while (p < end && !is_mark(p, end));
    return p;
}

int config_scan_made(const struct pipeline_query *query, struct arena *arena,
                     const struct config_text *whole, struct config_block *winner,
                     const struct why *why)
{
    const char *p = whole->text, *end = p + whole->length;

    while (p < end) {
        const char *name = p + sizeof CONFIG_MARK - 1, *line = line_end(p, end);

        if (!is_mark(p, end) || line == end)
            return refuse_at(why, EINVAL, whole->file, 0, "this was not made by `mvld config'");
        struct config_text text = {.text = line + 1, .lasting = whole->lasting};
        struct arena_mark mark = arena_mark(arena);
        const char *before = winner->text;
        text.file = arena_copy(arena, name, (size_t)(line - name));
        if (!text.file)
            return refuse(why, ENOMEM, "there is no memory for the configuration");
        p = next_mark(p, end);
        text.length = (size_t)(p - text.text);
        int error = config_scan(query, arena, &text, winner, why);
        if (error)
            return error;
        if (winner->text == before)
            arena_release(arena, mark);
    }
    return 0;
}
