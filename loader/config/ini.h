/* SPDX-License-Identifier: MIT
 *
 * loader/config/ini.h: the text form of the configuration, one item at a time.
 *
 * The reader allocates nothing and changes nothing: items are slices of the text, so the files cost
 * no memory in a program that matches nothing.  config/README.md explains the format.
 */
#ifndef LOADER_INI_H
#define LOADER_INI_H

#include <stddef.h>

#define INI_LINE_MAX 4096u /* bytes; a longer line is refused, not cut */

struct ini_slice {
    const char *at;
    size_t length;
};

struct ini {
    const char *at, *end;
    unsigned line; /* of `at` */
};

enum ini_kind { INI_END, INI_SECTION, INI_KEY };

struct ini_item {
    enum ini_kind kind;
    unsigned line;
    const char *start;      /* of its line */
    struct ini_slice name;  /* of the section, or the key */
    struct ini_slice value; /* of a key: as written, with quotes */
};

void ini_begin(struct ini *, const char *text, size_t length, unsigned first_line);

/* Reads the next item.  0, or -EINVAL with *why (a phrase without the place: the line is
 * ini_item.line). */
int ini_next(struct ini *, struct ini_item *, const char **why);

/* Takes the next element off a list (a value with commas), with its quotes.  1 while there is one,
 * else 0.  An element may be empty. */
int ini_list_next(struct ini_slice *list, struct ini_slice *element);

/* Writes the text of a value or an element, NUL-terminated: `to` has at least value.length + 1
 * bytes.  Returns its length, or -EINVAL if the value is a list with quoted elements. */
long ini_text(struct ini_slice value, char *to);

/* Returns 1 if the value, without quotes, is `text`. */
int ini_is(struct ini_slice value, const char *text);

/* Writes `text` so that it reads back as one value, or as one element of a list: quoted if
 * necessary.  At most 2 * strlen(text) + 3 bytes with the NUL; cut if `size` is less. */
void ini_write(char *to, size_t size, const char *text, int element);

/* Returns 1 if the slice is a valid name of a pass or section: [a-z0-9-]+. */
int ini_is_name(struct ini_slice);

#endif
