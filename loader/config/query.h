/* SPDX-License-Identifier: MIT
 *
 * loader/config/query.h: the program whose configuration is looked up.
 */
#ifndef LOADER_QUERY_H
#define LOADER_QUERY_H

#include "mvld/pass.h"
#include "rimf/base/log.h"
#include "rimf/base/sys.h"

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

static inline const char *pipeline_program(const struct pipeline_query *query)
{
    return query->program || !query->find_program ? query->program
                                                  : query->find_program(query->cookie);
}

static inline const uint8_t *pipeline_build_id(const struct pipeline_query *query, size_t *size)
{
    *size = query->build_id_size;
    return query->build_id || !query->find_build_id ? query->build_id
                                                    : query->find_build_id(query->cookie, size);
}

#endif
