/* SPDX-License-Identifier: MIT
 *
 * loader/config/tunables.c: MVLD_TUNABLES=pass.option=value:pass.option=value
 *
 * Like glibc's tunables, with one addition: inside a value "\:" is a colon and "\\" a backslash.
 * The section `app` sets keys of [app].  The last setting wins.
 */
#include "rimf/base/base.h"
#include "loader/config/config.h"

#include <errno.h>

/* Copies one item, up to the next colon, without its escapes. */
static int take_item(struct rimf_heap *heap, const char **at, char **out, const struct why *why)
{
    const char *p = *at;
    size_t length = 0, n = 0;

    while (p[length] && p[length] != ':') {
        unsigned char c = (unsigned char)p[length];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0, "there is a control character");
        if (c == '\\' && p[length + 1] != ':' && p[length + 1] != '\\')
            return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0,
                             "a backslash stands only before ':' or a backslash");
        length += c == '\\' ? 2 : 1;
    }
    if (length > INI_LINE_MAX)
        return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0, "one item is longer than %u bytes",
                         INI_LINE_MAX);
    char *to = rimf_heap_alloc(heap, length + 1);
    if (!to)
        return config_no_memory(why);
    for (size_t i = 0; i < length; i++) {
        if (p[i] == '\\')
            i++;
        to[n++] = p[i];
    }
    *at = p + length + (p[length] == ':');
    *out = to;
    return 0;
}

/* Splits "section.key=value" in place. */
static int put_item(struct rimf_heap *heap, char *item, struct config *config, const struct why *why)
{
    char *dot = item, *equals;

    while (*dot && *dot != '.' && *dot != '=')
        dot++;
    for (equals = dot; *equals && *equals != '='; equals++)
        ;
    if (*dot != '.' || *equals != '=' || equals == dot + 1 ||
        !ini_is_name((struct ini_slice){item, (size_t)(dot - item)}))
        return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0, "'%s' is not pass.option=value", item);
    *dot = *equals = 0;
    struct config_entry entry = {
        .section = item,
        .key = dot + 1,
        .raw = {equals + 1, rimf_strlen(equals + 1)},
        .text = equals + 1,
        .file = CONFIG_TUNABLES,
    };
    if (rimf_streq(item, "app")) {
        struct ini_slice key = {dot + 1, (size_t)(equals - dot - 1)};
        int error = config_check_app(key, entry.raw, CONFIG_TUNABLES, 0, why);
        if (error)
            return error;
    }
    return config_put(heap, config, &entry, 1, why);
}

int config_tunables(struct rimf_heap *heap, const char *tunables, struct config *config,
                    const struct why *why)
{
    while (*tunables) {
        if (*tunables == ':') { /* an empty item */
            tunables++;
            continue;
        }
        char *item = NULL;
        int error = take_item(heap, &tunables, &item, why);
        if (!error)
            error = put_item(heap, item, config, why);
        if (error)
            return error;
    }
    return 0;
}
