/* SPDX-License-Identifier: MIT
 *
 * analyze.h: the parts of `mvld analyze`.
 */
#ifndef ANALYZE_H
#define ANALYZE_H

#include "rimf/analysis/analysis.h"

#include <stddef.h>
#include <stdint.h>

/* ---- which files (analyze/find.c) ------------------------------------------------ */

struct paths {
    char **at;
    size_t n;
};

void paths_add(struct paths *, const char *path);
/* Every ELF file for this machine that is linked, in the folders of packages. */
void paths_of_system(struct paths *);
/* The program and what the host loader would load with it.  0, or -1 after a word to
 * the user. */
int paths_of_program(struct paths *, const char *name);
void paths_free(struct paths *);

/* Movable functions that are entered by others than movable code; of these, those where a
 * jump may be written in the original. */
struct entered {
    uint64_t reached, heads;
};

/* ---- one process a file (analyze/jobs.c) --------------------------------------------- */

enum outcome { OUTCOME_WRITTEN, OUTCOME_UP_TO_DATE, OUTCOME_REFUSED, OUTCOME_FAILED };

struct result {
    uint32_t index; /* of the path */
    uint32_t outcome;
    uint64_t code, analysis; /* bytes */
    uint64_t units[ANALYSIS_REASONS], bytes[ANALYSIS_REASONS];
    uint64_t calls, references, jump_tables;
    struct entered entered;
    uint32_t flags; /* enum analysis_flags */
    char why[256];
};

struct jobs {
    const struct paths *paths;
    const char *folder; /* where analyses go */
    unsigned at_once;
    int again; /* also what is up to date */
    void (*done)(void *cookie, const struct result *);
    void *cookie;
};

/* Analyses all of them.  A file that makes its process crash, or take more time or
 * memory than its size allows, is a failed one. */
void jobs_run(const struct jobs *);

/* ---- for people (analyze/explain.c) --------------------------------------------------- */

/* What stays in the file, and why.  0, or -1 after a word to the user. */
int explain(const char *path, int disassemble);
struct analyser;
struct entered count_entered(const struct analyser *);
void print_entered(const struct entered *);
void print_reasons(const uint64_t units[ANALYSIS_REASONS], const uint64_t bytes[ANALYSIS_REASONS]);

#endif
