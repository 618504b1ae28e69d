/* SPDX-License-Identifier: MIT
 *
 * run/wrapper.h: a small file that starts a program under mvld (`mvld enable').
 */
#ifndef RUN_WRAPPER_H
#define RUN_WRAPPER_H

#include <stddef.h>

/* The content of the wrapper of `program`, an absolute path; to be freed. */
char *wrapper_make(const char *program, size_t *size);

/* The program that this wrapper starts, to be freed; NULL: not a wrapper of ours. */
char *wrapper_program(const char *path);

#endif
