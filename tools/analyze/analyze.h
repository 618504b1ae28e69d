/* SPDX-License-Identifier: MIT
 *
 * analyze.h: shared by the files of `mvld analyze`.
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
/* Every linked ELF file for this machine in the folders of packages. */
void paths_of_system(struct paths *);
/* The program and the libraries that the host loader would load with it.  0, or -1 after an error
 * message. */
int paths_of_program(struct paths *, const char *name);
void paths_free(struct paths *);

/* Numbers of movable functions that are entered by other than movable code; and of those among them
 * whose original can get a jump. */
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
    const char *folder; /* folder for analyses */
    unsigned at_once;
    int again; /* also files that are up to date */
    void (*done)(void *cookie, const struct result *);
    void *cookie;
};

/* Analyses all of them.  A file fails if its process crashes or exceeds the time or memory for its
 * size. */
void jobs_run(const struct jobs *);

/* ---- for people (analyze/explain.c) --------------------------------------------------- */

/* Prints the functions of the file that stay, and why.  0, or -1 after an error message. */
int explain(const char *path, int disassemble);
struct analyser;
struct entered count_entered(const struct analyser *);
void print_entered(const struct entered *);
void print_reasons(const uint64_t units[ANALYSIS_REASONS], const uint64_t bytes[ANALYSIS_REASONS]);

#endif
