/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/options.h: options of a pass.  Included by mvld/pass.h.
 */
#ifndef MVLD_PASS_OPTIONS_H
#define MVLD_PASS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum mvld_option_type {
    MVLD_OPTION_BOOL = 1, /* 0 or 1; yes, no, on, off, true, false, 1, 0 */
    MVLD_OPTION_INT,      /* int64_t, min <= value <= max; decimal or 0x */
    MVLD_OPTION_WORD,     /* one of `words` */
    MVLD_OPTION_STRING,
    MVLD_OPTION_PREFIX,   /* `name` is a prefix such as "set." of any number of keys, each a string; they are
                           * adjacent in the settings */
    MVLD_OPTION_FILE,     /* the path of a file that the pass reads, or "".  A snapshot is used only while the
                           * file is the one that it was made with */
    MVLD_OPTION_SYMBOL,   /* "LIBRARY:SYMBOL", a definition in a library with that file name (setting_symbol).
                           * mvld reports an option that matched nothing at the start, and `mvld pipeline` one
                           * that will match nothing */
    MVLD_OPTION_GONE      /* of an earlier version of the pass: accepted with any value, without effect; `mvld
                           * doctor` reports it */
};

struct mvld_option {
    const char *name;
    enum mvld_option_type type;
    int64_t min, max;
    const char *initial;       /* default, as text; NULL: none, and `text` of its setting is NULL */
    const char *const *words;  /* MVLD_OPTION_WORD: NULL-terminated */
    const char *help;          /* one line */
};

/* One configured value, checked against the declaration. */
struct mvld_setting {
    const char *name; /* whole key, "set.config_smp" */
    const char *text; /* NULL: not configured, and no default */
    int64_t number;   /* BOOL, INT; index into words for WORD */
    const char *file; /* the configuration file; "" for a default */
    unsigned line;
};

/* For MVLD_OPTION_SYMBOL: returns the symbol, behind the library and a colon, or NULL if the text has another
 * form. */
static inline const char *mvld_setting_symbol(const struct mvld_setting *setting)
{
    const char *p = setting->text;

    while (p && *p && *p != ':')
        p++;
    return p && *p && p != setting->text && p[1] ? p + 1 : NULL;
}

/* Returns 1 if the last component of `path` is the option's library. */
static inline int mvld_setting_is_library(const struct mvld_setting *setting, const char *path)
{
    const char *text = setting->text, *file = path;

    for (; *path; path++)
        file = *path == '/' ? path + 1 : file;
    while (*file && *file == *text)
        file++, text++;
    return !*file && *text == ':';
}

#endif
