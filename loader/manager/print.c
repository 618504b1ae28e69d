/* SPDX-License-Identifier: MIT
 *
 * loader/manager/print.c: prints a plan in the form of the configuration, so that it can be parsed again;
 * everything else is in comments.
 */
#include "rimf/base/base.h"
#include "loader/manager/private.h"

#define LINE_SIZE (4 * INI_LINE_MAX)

/* Too large for a small stack. */
struct room {
    char text[LINE_SIZE], value[2 * INI_LINE_MAX + 3];
};

struct printer {
    const struct pipeline *pipeline;
    void (*line)(void *cookie, const char *text);
    void *cookie;
    struct room *room;
};

static void print(const struct printer *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void print(const struct printer *to, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    rimf_vformat(to->room->text, sizeof(to->room->text), format, arguments);
    va_end(arguments);
    to->line(to->cookie, to->room->text);
}

static void print_value(const struct printer *to, const char *key, const char *text,
                        const char *file, unsigned line)
{
    char *value = to->room->value;

    ini_write(value, sizeof(to->room->value), text, 0);
    if (!*file)
        print(to, "%s = %s ; default", key, value);
    else if (line)
        print(to, "%s = %s ; %s:%u", key, value, file, line);
    else
        print(to, "%s = %s ; %s", key, value, file);
}

static int is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return 0;
    return 1;
}

static void print_app(const struct printer *to)
{
    static const char *const keys[] = {"placement", "patch", "on-miss", "slot-writers"};
    const struct pipeline *p = to->pipeline;
    const struct config *c = &p->config;
    char *match = to->room->value;

    if (c->match)
        print(to, "; %s: the [app] of %s:%u matches by '%s'", p->program, c->file, c->line,
              c->match);
    else
        print(to, "; %s: no [app] matches, %s alone asks for passes", p->program,
              CONFIG_TUNABLES);
    print(to, "[app]");
    ini_write(match, sizeof(to->room->value), p->program, 1);
    if (*p->program && is_printable(p->program))
        print(to, "match = %s", match);
    else
        print(to, "; match: the program's name cannot be written here");
    print_value(to, "passes", p->order->text, p->order->file, p->order->line);
    for (size_t i = 0; i < RIMF_COUNT(keys); i++) {
        const struct config_entry *e = config_find(c, "app", keys[i]);
        if (e && e->text)
            print_value(to, keys[i], e->text, e->file, e->line);
    }
}

static void print_pass(const struct printer *to, const struct planned_pass *it)
{
    print(to, "[%s]", it->name);
    print(to, "; %s%s%s", it->path, it->pass->help ? ": " : "",
          it->pass->help ? it->pass->help : "");
    if (it->library)
        print(to, "; library %s", it->library);
    if (it->idle)
        print(to, "; nothing to do: %s", it->idle);
    for (size_t i = 0; i < it->n_settings; i++) {
        const struct mvld_setting *s = &it->settings[i];
        if (s->text)
            print_value(to, s->name, s->text, s->file, s->line);
        else if (!options_is(it->pass, s, MVLD_OPTION_GONE))
            print(to, "; %s has no value", s->name);
    }
}

void pipeline_print(struct pipeline *p, void (*line)(void *, const char *), void *cookie)
{
    struct printer to = {p, line, cookie, rimf_heap_alloc(&p->heap, sizeof(struct room))};

    if (!to.room) {
        line(cookie, "; there is no memory to print the pipeline");
        return;
    }
    print_app(&to);
    for (size_t i = 0; i < p->n; i++)
        print_pass(&to, &p->passes[i]);
    rimf_heap_release(&p->heap, to.room);
}
