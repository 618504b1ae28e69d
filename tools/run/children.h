/* SPDX-License-Identifier: MIT
 *
 * children.h: a mount namespace in which our loader stands in the place of the machine's.
 */
#ifndef CHILDREN_H
#define CHILDREN_H

/* This process gets it, and so all that descend from it: each dynamic program that they execute starts under `loader`.
 * NULL, or why there is none: then nothing has changed. */
const char *children_enter(const char *loader);

#endif
