/* SPDX-License-Identifier: MIT */
#include "loader/config/ini.h"
#include "rimf/base/base.h"

#include <errno.h>

static int blank(char c)
{
    return c == ' ' || c == '\t';
}

static int wrong(const char **why, const char *phrase)
{
    *why = phrase;
    return -EINVAL;
}

static struct ini_slice trim(const char *from, const char *to)
{
    while (from < to && blank(*from))
        from++;
    while (to > from && blank(to[-1]))
        to--;
    return (struct ini_slice){from, (size_t)(to - from)};
}

void ini_begin(struct ini *ini, const char *text, size_t length, unsigned first_line)
{
    *ini = (struct ini){text, text + length, first_line};
    /* The byte order mark that some editors write. */
    if (first_line == 1 && length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        ini->at += 3;
}

int ini_is_name(struct ini_slice s)
{
    for (size_t i = 0; i < s.length; i++) {
        char c = s.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return 0;
    }
    return s.length > 0;
}

/* Takes one line off the text; `line` excludes its end.  Lines with control characters are refused,
 * so later code may assume that there is no NUL. */
static int take_line(struct ini *ini, struct ini_slice *line, const char **why)
{
    size_t left = (size_t)(ini->end - ini->at);
    const char *end = ini->at + (left > INI_LINE_MAX ? INI_LINE_MAX + 1 : left), *p = ini->at;
    int control = 0;

    for (; p < end; p++) {
        unsigned char c = (unsigned char)*p;
        if (c >= 0x20 && c != 0x7f) /* the common case: this loop sees every byte of every file */
            continue;
        if (c == '\n')
            break;
        int ends_line = c == '\r' && (p + 1 == ini->end || p[1] == '\n');
        if (c != '\t' && !ends_line)
            control = 1;
    }
    if (p - ini->at > (long)INI_LINE_MAX)
        return wrong(why, "the line is longer than 4096 bytes");
    if (control)
        return wrong(why, "the line has a control character, the file is not text");
    *line = (struct ini_slice){ini->at, (size_t)(p - ini->at)};
    ini->at = p < ini->end ? p + 1 : p;
    ini->line++;
    if (line->length && line->at[line->length - 1] == '\r')
        line->length--;
    return 0;
}

/* Returns the position behind the closing quote, or NULL. */
static const char *skip_quoted(const char *p, const char *end, const char **why)
{
    for (p++; p < end && *p != '"'; p++) {
        if (*p != '\\')
            continue;
        if (end - p < 2 || (p[1] != '"' && p[1] != '\\')) {
            *why = "inside quotes a backslash stands only before a quote or a backslash";
            return NULL;
        }
        p++;
    }
    if (p == end) {
        *why = "the closing quote is missing";
        return NULL;
    }
    return p + 1;
}

/* The value from `p` on, without an inline comment. */
static int scan_value(const char *p, const char *end, struct ini_slice *value, const char **why)
{
    int element_begins = 1;

    while (p < end && blank(*p))
        p++;
    const char *start = p;
    while (p < end) {
        if (*p == ';' && (p == start || blank(p[-1]) || p[-1] == '"'))
            break;
        if (*p == '"') {
            if (!element_begins)
                return wrong(why, "a quote stands only at the start of a value");
            p = skip_quoted(p, end, why);
            if (!p)
                return -EINVAL;
            while (p < end && blank(*p))
                p++;
            if (p < end && *p != ',' && *p != ';')
                return wrong(why, "there is text behind the closing quote");
            element_begins = 0;
            continue;
        }
        if (*p == ',')
            element_begins = 1;
        else if (!blank(*p))
            element_begins = 0;
        p++;
    }
    *value = trim(start, p);
    return 0;
}

static int scan_section(struct ini_slice line, struct ini_item *item, const char **why)
{
    const char *end = line.at + line.length, *close = line.at + 1;

    while (close < end && *close != ']')
        close++;
    if (close == end)
        return wrong(why, "the section's ']' is missing");
    item->kind = INI_SECTION;
    item->name = trim(line.at + 1, close);
    if (!ini_is_name(item->name))
        return wrong(why, "a section's name has only a-z, 0-9 and '-'");
    struct ini_slice rest = trim(close + 1, end);
    if (rest.length && rest.at[0] != ';' && rest.at[0] != '#')
        return wrong(why, "there is text behind the section's ']'");
    return 0;
}

static int scan_key(struct ini_slice line, struct ini_item *item, const char **why)
{
    const char *end = line.at + line.length, *equals = line.at;

    while (equals < end && *equals != '=')
        equals++;
    if (equals == end)
        return wrong(why, "the line is neither [section] nor key = value");
    item->kind = INI_KEY;
    item->name = trim(line.at, equals);
    for (size_t i = 0; i < item->name.length; i++) {
        char c = item->name.at[i];
        if (blank(c) || c == '"' || c == ';' || c == '#' || c == '[' || c == ']')
            return wrong(why, "the key has a character that no key has");
    }
    if (!item->name.length)
        return wrong(why, "there is no key before '='");
    return scan_value(equals + 1, end, &item->value, why);
}

int ini_next(struct ini *ini, struct ini_item *item, const char **why)
{
    *item = (struct ini_item){.kind = INI_END};
    while (ini->at < ini->end) {
        struct ini_slice line;

        item->start = ini->at;
        item->line = ini->line;
        if (take_line(ini, &line, why))
            return -EINVAL;
        line = trim(line.at, line.at + line.length);
        if (!line.length || line.at[0] == ';' || line.at[0] == '#')
            continue;
        if (line.at[0] == '[')
            return scan_section(line, item, why);
        return scan_key(line, item, why);
    }
    item->start = ini->end;
    item->line = ini->line;
    return 0;
}

int ini_list_next(struct ini_slice *list, struct ini_slice *element)
{
    const char *p = list->at, *end = list->at + list->length;
    const char *why;

    if (p == end)
        return 0;
    while (p < end && *p != ',') {
        if (*p == '"') {
            const char *behind = skip_quoted(p, end, &why);
            p = behind ? behind : end;
        } else {
            p++;
        }
    }
    *element = trim(list->at, p);
    if (p < end) /* a comma at the very end is allowed */
        p++;
    *list = (struct ini_slice){p, (size_t)(end - p)};
    return 1;
}

long ini_text(struct ini_slice value, char *to)
{
    size_t n = 0;

    if (!value.length || value.at[0] != '"') {
        for (size_t i = 0; i < value.length; i++) {
            if (value.at[i] == '"')
                return -EINVAL;
            to[n++] = value.at[i];
        }
        to[n] = 0;
        return (long)n;
    }
    size_t i = 1;
    for (; i < value.length && value.at[i] != '"'; i++) {
        if (value.at[i] == '\\' && i + 1 < value.length)
            i++;
        to[n++] = value.at[i];
    }
    to[n] = 0;
    return i + 1 == value.length ? (long)n : -EINVAL;
}

int ini_is(struct ini_slice value, const char *text)
{
    size_t n = rimf_strlen(text), i = 0;

    if (value.length == n && memcmp(value.at, text, n) == 0)
        return 1;
    if (value.length < n + 2 || value.at[0] != '"')
        return 0;
    for (size_t at = 1; at < value.length && value.at[at] != '"'; at++, i++) {
        if (value.at[at] == '\\' && at + 1 < value.length)
            at++;
        if (i >= n || value.at[at] != text[i])
            return 0;
    }
    return i == n;
}

static int must_quote(const char *text, int element)
{
    size_t n = rimf_strlen(text);

    if (n && (blank(text[0]) || blank(text[n - 1])))
        return 1;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '"' || (element && (text[i] == ',' || text[i] == '*')) ||
            (text[i] == ';' && (i == 0 || blank(text[i - 1]))))
            return 1;
    return 0;
}

void ini_write(char *to, size_t size, const char *text, int element)
{
    size_t n = 0;
    int quote = must_quote(text, element);

    if (!size)
        return;
    if (quote && n + 1 < size)
        to[n++] = '"';
    for (; *text && n + 2 < size; text++) {
        if (quote && (*text == '"' || *text == '\\'))
            to[n++] = '\\';
        to[n++] = *text;
    }
    if (quote && n + 1 < size)
        to[n++] = '"';
    to[n] = 0;
}
