/* SPDX-License-Identifier: MIT
 *
 * run/wrapper.h: a script that starts a program under mvld (`mvld enable').
 */
#ifndef RUN_WRAPPER_H
#define RUN_WRAPPER_H

/* The text of the script that starts `program`; to be freed. */
char *wrapper_text(const char *program);

/* The program that this script starts, to be freed; NULL: not a script of ours. */
char *wrapper_program(const char *path);

#endif
