/* SPDX-License-Identifier: MIT
 *
 * loader/config/made.c: reads the output of `mvld config`.
 *
 *     @/redis-server/python3.11/build-id:1f2d/
 *     @ /etc/mvld/apps.d/python.conf
 *     [app]
 *     match = /usr/bin/python3.11, build-id:1F2D
 *     ...
 *     @ /etc/mvld/apps.d/redis.conf
 *     ...
 *
 * The first line lists, for all elements of `match`, what lets most programs see that they are not
 * concerned: the last component of a path, a name, a build-id, or an asterisk; none contains a
 * slash.  Then come the texts of all files of a folder.  Each is preceded by a line with its name,
 * which cannot be a line of a configuration, because a key contains no blank.  So error messages
 * name the file that people wrote, and its line.
 */
#include "rimf/base/base.h"
#include "loader/config/config.h"

#include <errno.h>

static const char *line_end(const char *p, const char *end)
{
    while (p < end && *p != '\n')
        p++;
    return p;
}

static int begins(const char *p, const char *end, const char *mark)
{
    return end - p > 2 && p[0] == mark[0] && p[1] == mark[1];
}

/* ---- the list ------------------------------------------------------------------------- */

#define NAMES 4
#define BUILD_ID_MAX 64 /* bytes; for a longer one everything is read */

struct names {
    struct ini_slice at[NAMES];
    size_t n;
    char build_id[sizeof CONFIG_BUILD_ID + 2 * BUILD_ID_MAX];
};

static void add_name(struct names *names, const char *path)
{
    const char *name = path ? rimf_file_name(path) : NULL;

    if (name)
        names->at[names->n++] = (struct ini_slice){name, rimf_strlen(name)};
}

static int is_listed(const struct names *names, const char *p, const char *end)
{
    for (const char *next; p < end; p = next + 1) {
        for (next = p; next < end && *next != '/'; next++)
            ;
        size_t length = (size_t)(next - p);
        for (size_t i = 0; i < names->n; i++)
            if (names->at[i].length == length && memcmp(names->at[i].at, p, length) == 0)
                return 1;
    }
    return 0;
}

/* Most lists have none, and then the program's notes need not be read. */
static int lists_build_ids(const char *p, const char *end)
{
    const size_t n = sizeof CONFIG_BUILD_ID - 1;

    while (p < end && !((size_t)(end - p) >= n && memcmp(p, CONFIG_BUILD_ID, n) == 0))
        p++;
    return p < end;
}

/* 0: it is too long. */
static int add_build_id(struct names *names, const struct pipeline_query *q)
{
    size_t size, n = rimf_format(names->build_id, sizeof names->build_id, CONFIG_BUILD_ID);
    const uint8_t *id = pipeline_build_id(q, &size);

    if (size > BUILD_ID_MAX)
        return 0;
    for (size_t i = 0; i < size; i++)
        n += rimf_format(names->build_id + n, sizeof names->build_id - n, "%02x", id[i]);
    if (id)
        add_name(names, names->build_id);
    return 1;
}

/* The file's name may differ from the name that was executed: a link, a script's interpreter. */
static const char *other_name(const struct pipeline_query *q)
{
    return !q->program && q->called && q->is_called && q->is_called(q->cookie, q->called)
               ? NULL
               : pipeline_program(q);
}

int config_made_concerns(const struct pipeline_query *q, const char *text, size_t length)
{
    const char *list = text + sizeof CONFIG_LIST - 1, *end = line_end(text, text + length);
    struct names names = {0}, other = {0};

    if (!begins(text, text + length, CONFIG_LIST) || end == text + length)
        return 1;
    add_name(&names, "*");
    if (!q->secure) {
        add_name(&names, q->name);
        add_name(&names, q->called);
    }
    if (lists_build_ids(list, end) && !add_build_id(&names, q))
        return 1;
    if (is_listed(&names, list, end))
        return 1;
    add_name(&other, other_name(q));
    return is_listed(&other, list, end);
}

/* ---- the texts ------------------------------------------------------------------------ */

/* The next line with a file's name behind this line, or the end. */
static const char *next_mark(const char *p, const char *end)
{
    do {
        p = line_end(p, end);
        p += p < end;
    } while (p < end && !begins(p, end, CONFIG_MARK));
    return p;
}

static int scan_file(const struct pipeline_query *query, struct rimf_heap *heap, struct ini_slice name,
                     const char *text, size_t length, struct config *config, const struct why *why)
{
    char *file = rimf_heap_copy_part(heap, name.at, name.length);
    int error = file ? config_scan(query, heap, &(struct config_text){file, text, length}, config, why)
                     : config_no_memory(why);

    rimf_heap_release(heap, file);
    return error;
}

int config_scan_made(const struct pipeline_query *query, struct rimf_heap *heap,
                     const struct config_text *whole, struct config *config, const struct why *why)
{
    const char *p = whole->text, *end = p + whole->length;
    int error = 0, made = begins(p, end, CONFIG_LIST);

    if (!config_made_concerns(query, p, whole->length)) /* the beginning was not enough to decide */
        return 0;
    for (p = next_mark(p, end); made && !error && p < end;) {
        const char *name = p + sizeof CONFIG_MARK - 1, *line = line_end(p, end);

        p = next_mark(p, end);
        made = line < end;
        if (made)
            error = scan_file(query, heap, (struct ini_slice){name, (size_t)(line - name)}, line + 1,
                              (size_t)(p - line - 1), config, why);
    }
    if (!made)
        return refuse_at(why, EINVAL, whole->file, 0, "this was not made by `mvld config'");
    return error;
}
