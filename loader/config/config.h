/* SPDX-License-Identifier: MIT
 *
 * loader/config/config.h: the configuration of one program.
 *
 * config/README.md explains for users which files are read, in which order, and the format.  The
 * last [app] block that matches the program wins; MVLD_TUNABLES overrides it.
 */
#ifndef LOADER_CONFIG_H
#define LOADER_CONFIG_H

#include "loader/config/ini.h"
#include "mvld/pass.h"
#include "rimf/base/alloc.h"
#include "rimf/base/log.h"
#include "rimf/base/sys.h"

/* ---- the program whose configuration is looked up ----------------------------------- */

struct pipeline_query {
    const struct rimf_sys *sys;
    const struct rimf_log *log;
    char **envp;
    int secure;          /* AT_SECURE: no environment, no file of a user */
    const char *program; /* real path of the program, or NULL when unknown */
    const char *name;    /* argv[0], with its folder if it has one */
    const uint8_t *build_id;
    size_t build_id_size;
    /* Called if `program` or `build_id` is NULL and a configuration names programs that way.  Most
     * execs find no configuration and need no system call. */
    const char *(*find_program)(void *cookie);
    const uint8_t *(*find_build_id)(void *cookie, size_t *size);
    /* Called before find_program: returns 1 if the last component of `called` is the file's own
     * name, so that only the path's other components must be asked for.  NULL: unknown. */
    int (*is_called)(void *cookie, const char *called);
    /* Called when passes are configured for the program: from then on system calls are allowed that
     * the host loader does not make.  Or NULL. */
    void (*is_meant)(void *cookie);
    void *cookie;
    const char *called; /* the executed path, from execve (AT_EXECFN) or a command line; or NULL */
    int runs;           /* the plan will be run: idle passes need not stay mapped */
    int late;           /* pipeline_complete will be called */
    int musl;           /* a program of musl takes other libraries, see manager/find.c */
    /* Memory for the plan, zeroed and 16-byte aligned, valid as long as the plan; or NULL.  If it
     * is not enough, the kernel is asked for more. */
    void *memory;
    size_t memory_size;
};

/* config/block.c: the program's real path, and its build-id: the query's, or what its functions say.  NULL: unknown. */
const char *pipeline_program(const struct pipeline_query *);
const uint8_t *pipeline_build_id(const struct pipeline_query *, size_t *size);

/* ---- why it is refused -------------------------------------------------------------- */

struct why {
    char *text;
    size_t size;
};

/* The `err` of a refusal that no author of a configuration caused: a system call failed for lack of
 * memory or descriptors, or in a sandbox. */
#define BY_KERNEL EIO

/* Stores the sentence and returns -err. */
int refuse(const struct why *, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with the prefix "FILE:LINE: ", or "FILE: " if line is 0. */
int refuse_at(const struct why *, int err, const char *file, unsigned line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Writes "a, b, c", cut if there are very many. */
void config_list_words(const char *const *words, char *to, size_t size);

/* ---- the configuration -------------------------------------------------------------- */

#define CONFIG_TUNABLES "MVLD_TUNABLES" /* the `file` of its settings */

struct config_entry {
    struct config_entry *next;
    const char *section; /* "app" or the name of a pass */
    const char *key;
    struct ini_slice raw; /* as written: lists are split from it */
    const char *text;     /* as one value; NULL when it is a list with quotes */
    const char *file;
    unsigned line; /* 0: MVLD_TUNABLES has no lines */
};

struct config {
    const char *file; /* of the [app] that won; CONFIG_TUNABLES if none did */
    unsigned line;
    const char *match; /* the value that matched, as written; NULL if none did */
    struct config_entry *entries, **tail;
    size_t n_entries;
};

/* The environment variables that we read; all NULL under AT_SECURE. */
struct config_environment {
    const char *home, *xdg_config_home, *config, *tunables, *pass_path;
};

void config_environment(const struct pipeline_query *, struct config_environment *out);
/* Writes the user's folder of configuration and `more`.  Returns the length; 0: there is none, or
 * it does not fit. */
size_t config_user_folder(char *to, size_t size, const struct config_environment *,
                          const char *more);

/* Returns 1: `out` configures the program.  0: nothing is configured.  Else negative errno and the sentence. */
int config_read(const struct pipeline_query *, const struct config_environment *, struct rimf_heap *,
                struct config *out, const struct why *);

/* The value of section.key, or NULL. */
const struct config_entry *config_find(const struct config *, const char *section,
                                       const char *key);

#define CONFIG_MADE "config.cache"  /* in a folder of configuration: the output of `mvld config` */
#define CONFIG_LIST "@/" /* begins its first line */
#define CONFIG_MARK "@ " /* begins a line with the name of a file, whose text follows */
#define CONFIG_BUILD_ID "build-id:"
#define CONFIG_FILE_MAX (1024 * 1024UL)

/* ---- options.c ------------------------------------------------------------------------ */

/* The settings of `pass`: every option in the order of declaration, with its default if it is not
 * set (text NULL without a default); the keys of a prefix option in the order of the file.  0, or
 * negative errno with a sentence that names file, line and pass. */
int options_finish(struct rimf_heap *, const struct mvld_pass *, const char *pass_path,
                   const struct config *, struct mvld_setting **settings, size_t *n,
                   const struct why *);

/* 1: its option is of that type. */
int options_is(const struct mvld_pass *, const struct mvld_setting *, enum mvld_option_type);

/* ---- between the files of the reader -------------------------------------- */

/* One configuration file in memory. */
struct config_text {
    const char *file;
    const char *text;
    size_t length;
};

/* config/block.c: checks the whole text; the last matching [app] in it becomes the configuration. */
int config_scan(const struct pipeline_query *, struct rimf_heap *, const struct config_text *, struct config *,
                const struct why *);
/* config/made.c: returns 0 if the text, given its beginning, names no program that this one could
 * be. */
int config_made_concerns(const struct pipeline_query *, const char *text, size_t length);
/* As config_scan, for the output of `mvld config`. */
int config_scan_made(const struct pipeline_query *, struct rimf_heap *, const struct config_text *, struct config *,
                     const struct why *);
int config_no_memory(const struct why *);
/* Checks a key of [app] besides match; `value` may be a list. */
int config_check_app(struct ini_slice key, struct ini_slice value, const char *file, unsigned line,
                     const struct why *);

int config_tunables(struct rimf_heap *, const char *tunables, struct config *, const struct why *);

/* config/config.c: adds the entries of a block, whose file and line the configuration has. */
int config_load(struct rimf_heap *, const char *text, size_t length, struct config *, const struct why *);

#endif
