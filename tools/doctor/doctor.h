/* SPDX-License-Identifier: MIT
 *
 * doctor.h: findings of `mvld doctor`.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "tools/common/tools.h"

enum finding_state {
    FINDING_OK,      /* available */
    FINDING_ABSENT,  /* not available, but mvld works without it */
    FINDING_PROBLEM  /* mvld cannot do something that it should */
};

struct finding {
    enum finding_state state;
    char *heading, *name, *text, *remedy; /* or NULL */
    int shown;
};

struct report {
    struct json *json; /* NULL: text */
    int brief;         /* findings are collected, and shown at the end (report_brief) */
    const char *heading;
    struct finding *kept;
    size_t n, n_machine; /* n_machine: the first ones are about the machine, the others about mvld's
                          * files */
    unsigned problems;
};

/* Adds a heading for findings; `remedy` says how to get what is missing, or is NULL. */
void report_heading(struct report *, const char *title);
void report_finding(struct report *, const char *name, enum finding_state, const char *remedy,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Shows problems, repairable files of mvld, and the number of findings: fifteen lines at most. */
void report_brief(const struct report *);

void doctor_patching(struct report *);
void doctor_processor(struct report *);
void doctor_memory(struct report *);
void doctor_host_loader(struct report *, const char *path);
/* Whether this mvld was built for the host loader's code. */
void doctor_built_beside(struct report *, const char *path);
void doctor_configuration(struct report *);
void doctor_caches(struct report *);
void doctor_programs(struct report *);
/* Reports one program, found as a shell finds it.  TOOL_OK; or TOOL_FAILED and a message: it is not
 * found. */
int doctor_program(struct report *, const char *name);
void doctor_passes(struct report *, const char *folders);
void doctor_compiler(struct report *);

/* doctor/hugepages.c: NULL: a process gets such pages here; else why not (static). */
const char *hugepages_try_thp(void);
/* The same for a file in this folder, shared by all processes. */
const char *hugepages_try_folder(const char *folder);

/* The first line of a file of /proc or /sys, without its newline.  0, or -1. */
int read_line(const char *path, char *to, size_t size);

#endif
