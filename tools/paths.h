/* SPDX-License-Identifier: MIT
 *
 * paths.h: where the parts of mvld lie.  A command in a build folder takes what
 * was built beside it; an installed one what was installed.
 */
#ifndef PATHS_H
#define PATHS_H

const char *path_loader(void);      /* ld-mvld.so.1 */
const char *path_passes(void);      /* the folder of the passes */
const char *path_host_loader(void); /* the real ld.so: the diverted one when it is there */

#endif
