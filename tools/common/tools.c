/* SPDX-License-Identifier: MIT
 *
 * tools.c: messages, memory, JSON and numbers of processes for the subcommands.
 */
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void complain(const char *subcommand, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout); /* so that output and errors keep their order in one log */
    fprintf(stderr, "mvld %s: ", subcommand);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

void progress(const char *format, ...)
{
    va_list args;

    if (!isatty(STDERR_FILENO))
        return;
    fflush(stdout);
    fputs("\r\033[K", stderr);
    if (!format)
        return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
}

static void out_of_memory(void)
{
    fputs("mvld: out of memory\n", stderr);
    exit(TOOL_FAILED);
}

void *must_alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        out_of_memory();
    return p;
}

void *must_grow(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        out_of_memory();
    void *p = realloc(old, bytes ? bytes : 1);
    if (!p)
        out_of_memory();
    return p;
}

char *must_print(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        out_of_memory();
    va_end(args);
    return text;
}

char *shell_word(const char *path)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-:@%,=";

    if (*path && !path[strspn(path, safe)])
        return must_print("%s", path);
    char *word = must_alloc(4 * strlen(path) + 3, 1), *to = word;
    *to++ = '\'';
    for (; *path; path++)
        to += sprintf(to, *path == '\'' ? "'\\''" : "%c", *path);
    *to = '\'';
    return word;
}

char *shell_command(const char *command, const char *path)
{
    char *word = shell_word(path), *whole = must_print("%s %s", command, word);
    free(word);
    return whole;
}

char *read_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error = 0;
    struct stat st;
    char *text = NULL;

    if (fd >= 0 && !fstat(fd, &st)) {
        text = must_alloc((size_t)st.st_size + 1, 1);
        if (read(fd, text, (size_t)st.st_size) != st.st_size)
            error = EIO;
    }
    if (fd >= 0)
        close(fd);
    if (error) {
        free(text);
        text = NULL;
        errno = error;
    }
    return text;
}

int make_folders(char *folder)
{
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int error = mkdir(folder, 0755) && errno != EEXIST;
        *slash = '/';
        if (error)
            return -1;
    }
    return mkdir(folder, 0755) && errno != EEXIST ? -1 : 0;
}

void open_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
}

uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int lock_within(int fd, int operation, unsigned milliseconds)
{
    uint64_t until = clock_ns() + milliseconds * UINT64_C(1000000);

    while (flock(fd, operation | LOCK_NB)) {
        if (errno != EWOULDBLOCK || clock_ns() > until)
            return -1;
        usleep(1000);
    }
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void remove_tree(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Length of the valid UTF-8 sequence at `s`, or 0. */
static unsigned utf8_length(const unsigned char *s)
{
    unsigned n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : 0;
    if (*s >= 0xf0 && *s < 0xf5)
        n = 4;
    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and code points above U+10FFFF. */
    if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0) ||
        (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

/* C1 controls (U+0080 to U+009F) are commands to some terminals. */
static int is_control(const unsigned char *s)
{
    return *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0);
}

void print_name(FILE *to, const char *name)
{
    for (const unsigned char *s = (const unsigned char *)name; *s;) {
        unsigned n = utf8_length(s);
        if (n == 0 || is_control(s)) {
            fprintf(to, "\\x%02x", *s++);
            continue;
        }
        fwrite(s, 1, n, to);
        s += n;
    }
}

static void json_text(struct json *j, const char *text)
{
    fputc('"', j->to);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        unsigned n = utf8_length(s);
        if (*s == '"' || *s == '\\') {
            fprintf(j->to, "\\%c", *s++);
        } else if (n == 0 || is_control(s)) {
            fprintf(j->to, "\\u%04x", *s++);
        } else {
            fwrite(s, 1, n, j->to);
            s += n;
        }
    }
    fputc('"', j->to);
}

static void json_key(struct json *j, const char *key)
{
    if (j->follows)
        fputc(',', j->to);
    if (j->depth)
        fprintf(j->to, "\n%*s", 2 * (int)j->depth, "");
    if (key) {
        json_text(j, key);
        fputs(": ", j->to);
    }
    j->follows = 1;
}

void json_begin(struct json *j, const char *key, char bracket)
{
    json_key(j, key);
    fputc(bracket, j->to);
    j->depth++;
    j->follows = 0;
}

void json_end(struct json *j, char bracket)
{
    j->depth--;
    if (j->follows)
        fprintf(j->to, "\n%*s", 2 * (int)j->depth, "");
    fputc(bracket, j->to);
    j->follows = 1;
    if (!j->depth)
        fputc('\n', j->to);
}

void json_string(struct json *j, const char *key, const char *value)
{
    json_key(j, key);
    if (value)
        json_text(j, value);
    else
        fputs("null", j->to);
}

void json_hex(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    fprintf(j->to, "\"0x%" PRIx64 "\"", value);
}

void json_unsigned(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    fprintf(j->to, "%" PRIu64, value);
}

void json_signed(struct json *j, const char *key, int64_t value)
{
    json_key(j, key);
    fprintf(j->to, "%" PRId64, value);
}

void json_bool(struct json *j, const char *key, int value)
{
    json_key(j, key);
    fputs(value ? "true" : "false", j->to);
}
