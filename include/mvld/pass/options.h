/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/options.h: what a pass can be told.  Included by mvld/pass.h.
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
    MVLD_OPTION_PREFIX,   /* `name` is a prefix such as "set."; any number of keys,
                             each a string: they follow each other in the settings */
    MVLD_OPTION_WORDS,    /* some of `words` (at most MVLD_WORDS_MAX), none twice, by preference: "thp, small" */
    MVLD_OPTION_FILE,     /* a string, the path of a file that the pass reads, or "": a snapshot is
                             not taken when there is another file than when it was made */
    MVLD_OPTION_SYMBOL    /* "LIBRARY:SYMBOL", a definition in a library of that name, without its folder
                             (setting_symbol): what matched nothing at the start is said, and `mvld pipeline`
                             says what will not */
};

struct mvld_option {
    const char *name;
    enum mvld_option_type type;
    int64_t min, max;
    const char *initial;       /* default, as text; NULL: none, its setting's text is NULL */
    const char *const *words;  /* MVLD_OPTION_WORD, MVLD_OPTION_WORDS: NULL-terminated */
    const char *help;          /* one line */
};

/* One configured value, checked against the declaration. */
struct mvld_setting {
    const char *name; /* whole key, "set.config_smp" */
    const char *text; /* NULL: nothing was said and there is no default */
    int64_t number;   /* BOOL, INT; index into words for WORD; WORDS: see below */
    const char *file; /* where it was said; "" for a default */
    unsigned line;
};

#define MVLD_WORDS_MAX 15u /* of MVLD_OPTION_WORDS: four bits of a number for each */

/* The i-th of the words that were said, as an index into `words`, or -1: there are no more. */
static inline int mvld_setting_word(const struct mvld_setting *setting, unsigned i)
{
    return i < MVLD_WORDS_MAX ? (int)(setting->number >> 4 * i & 15) - 1 : -1;
}

/* Of MVLD_OPTION_SYMBOL: the symbol, behind the library and a colon; NULL: it is no such text. */
static inline const char *mvld_setting_symbol(const struct mvld_setting *setting)
{
    const char *p = setting->text;

    while (p && *p && *p != ':')
        p++;
    return p && *p && p != setting->text && p[1] ? p + 1 : NULL;
}

/* 1: the file at this path is called as the library, without its folder. */
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
