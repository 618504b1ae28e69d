/* SPDX-License-Identifier: MIT
 *
 * children.h: a mount namespace in which our loader replaces the machine's.
 */
#ifndef CHILDREN_H
#define CHILDREN_H

/* Puts this process, and all its descendants, into one: each dynamic program that they execute
 * starts under `loader`.  NULL, or why that is impossible: then nothing has changed. */
const char *children_enter(const char *loader);

#endif
