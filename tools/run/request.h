/* SPDX-License-Identifier: MIT
 *
 * request.h: the common options of `mvld run` and `mvld pipeline`, and the plan for them.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "tools/run/program.h"

#include <getopt.h>

struct pipeline;

struct request {
    char *passes;   /* of --pass, comma separated; or NULL */
    char *tunables; /* of --set, --option, --placement; or NULL */
    int sets;       /* --set was given */
};

/* For getopt_long; the values are those that request_option takes. */
#define REQUEST_OPTIONS                                                                           \
    {"pass", required_argument, NULL, 'p'}, {"set", required_argument, NULL, 's'},                \
        {"option", required_argument, NULL, 'o'}, {"config", required_argument, NULL, 'c'},       \
        {"placement", required_argument, NULL, 'a'}, {"debug", required_argument, NULL, 'd'}
#define REQUEST_USAGE                                                                             \
    "  --pass PASS          run this pass (again for more; instead of what is configured)\n"      \
    "  --set SWITCH=VALUE   a switch's value for the first commit; adds the pass multiverse\n"    \
    "  --option PASS.OPTION=VALUE\n"                                                              \
    "                       an option of a pass, over what is configured\n"                       \
    "  --config FILE        one more configuration file (MVLD_CONFIG)\n"                          \
    "  --placement WORD     near, huge or as-is: where libraries go\n"                                  \
    "  --debug WORDS        MVLD_DEBUG, such as passes or all\n"

/* 0; 1 if the option is none of these; -1 after an error message. */
int request_option(struct request *, const char *subcommand, int option, const char *value);
int request_is_empty(const struct request *);
/* Puts the request into the environment, overriding it; `program` decides what is configured.
 * NULL, or the error. */
const char *request_apply(const struct request *, const struct program *);
/* The loader's plan in this environment.  0 with NULL: nothing. */
int request_plan(const struct program *, struct pipeline **out, char *why, size_t why_size);

#endif
