/* SPDX-License-Identifier: MIT
 *
 * tools.h: what the subcommands of mvld share.
 */
#ifndef TOOLS_H
#define TOOLS_H

#include <stdint.h>
#include <stdio.h>

/* Exit codes of every subcommand. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* A subcommand: argv[0] is its own name. */
struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* one line of `mvld --help` */
};

int tool_build(int argc, char **argv);
int tool_cache(int argc, char **argv);
int tool_config(int argc, char **argv);
int tool_doctor(int argc, char **argv);
int tool_run(int argc, char **argv);
int tool_set_interp(int argc, char **argv);
int tool_enable(int argc, char **argv);
int tool_disable(int argc, char **argv);
int tool_status(int argc, char **argv);
int tool_switch(int argc, char **argv);
int tool_try(int argc, char **argv);
int tool_show(int argc, char **argv);
int tool_passes(int argc, char **argv);
int tool_pipeline(int argc, char **argv);
int tool_analyze(int argc, char **argv);
int tool_profile(int argc, char **argv);

/* "mvld SUBCOMMAND: <text>\n" on standard error. */
void complain(const char *subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* How far long work is: a line on standard error that the next one overwrites, or that stays when the text ends
 * in a newline; with NULL it goes.  Only on a terminal. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory that is there, or the end of the tool. */
void *must_alloc(size_t n, size_t size);
void *must_grow(void *old, size_t n, size_t size);
char *must_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A text file behind a NUL, to be freed; or NULL with errno.  A link in its last component is not followed. */
char *read_file(const char *path);

/* The folder of that path, and those above it, where they are not there.  0, or -1 with errno. */
int make_folders(char *path);

/* A folder and all that is in it, on its file system alone; links are not followed. */
void remove_tree(const char *folder);

/* A string of the file at hand, without what a terminal would obey. */
void print_name(FILE *, const char *);

/* ---- JSON ------------------------------------------------------------------
 * Writes one value; keys are NULL inside arrays. */
struct json {
    FILE *to;
    unsigned depth;
    int follows; /* something stands before, in this object or array */
};
void json_begin(struct json *, const char *key, char bracket); /* '{' or '[' */
void json_end(struct json *, char bracket);                    /* '}' or ']' */
void json_string(struct json *, const char *key, const char *value); /* NULL: null */
void json_hex(struct json *, const char *key, uint64_t value);       /* "0x…" */
void json_unsigned(struct json *, const char *key, uint64_t value);
void json_signed(struct json *, const char *key, int64_t value);
void json_bool(struct json *, const char *key, int value);

#endif
