/* SPDX-License-Identifier: MIT
 *
 * tools.h: shared by the subcommands of mvld.
 */
#ifndef TOOLS_H
#define TOOLS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

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
int tool_patch(int argc, char **argv);
int tool_try(int argc, char **argv);
int tool_show(int argc, char **argv);
int tool_passes(int argc, char **argv);
int tool_pipeline(int argc, char **argv);
int tool_analyze(int argc, char **argv);
int tool_profile(int argc, char **argv);

/* "mvld SUBCOMMAND: <text>\n" on standard error. */
void complain(const char *subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Shows the progress of long work: a line on standard error that the next one overwrites, unless it
 * ends in a newline; NULL removes it.  Only on a terminal. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocates memory, or ends the tool. */
void *must_alloc(size_t n, size_t size);
void *must_grow(void *old, size_t n, size_t size);
char *must_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The path as one word of a shell's command line, quoted where it must be; to be freed. */
char *shell_word(const char *path);
/* "COMMAND PATH" for a user's shell, to be freed. */
char *shell_command(const char *command, const char *path);

/* A text file, NUL-terminated, to be freed; or NULL with errno.  A link in its last component is not followed. */
char *read_file(const char *path);

/* Creates the folder of that path, and those above it.  0, or -1 with errno. */
int make_folders(char *path);

/* Opens what is closed of standard input, output and error: else a file that is opened next would get what is printed. */
void open_standard(void);

/* Removes a folder and its contents, on its file system only; links are not followed. */
void remove_tree(const char *folder);

/* Nanoseconds since some moment; nobody sets this clock. */
uint64_t clock_ns(void);
/* flock(2), which waits for so long at most.  0, or -1 with errno: EWOULDBLOCK if others have held it all the time. */
int lock_within(int fd, int operation, unsigned milliseconds);

/* Prints a string from a file, without control characters. */
void print_name(FILE *, const char *);

/* ---- JSON ------------------------------------------------------------------
 * Writes one value; keys are NULL inside arrays. */
struct json {
    FILE *to;
    unsigned depth;
    int follows; /* an element precedes, in this object or array */
};
void json_begin(struct json *, const char *key, char bracket); /* '{' or '[' */
void json_end(struct json *, char bracket);                    /* '}' or ']' */
void json_string(struct json *, const char *key, const char *value); /* NULL: null */
void json_hex(struct json *, const char *key, uint64_t value);       /* "0x…" */
void json_unsigned(struct json *, const char *key, uint64_t value);
void json_signed(struct json *, const char *key, int64_t value);
void json_bool(struct json *, const char *key, int value);

#endif
