/* SPDX-License-Identifier: MIT
 *
 * loader/start/outside.h: what `mvld patch` asks of us in a process that runs.
 *
 * A thread of the process that waits in a system call is sent here (tools/attach/attach.h).
 */
#ifndef LOADER_OUTSIDE_H
#define LOADER_OUTSIDE_H

/* Type of our file's note that says where the function is: its descriptor is the distance from itself, 32 bits.
 *
 *     int function(uintptr_t original, size_t length, uintptr_t *to);
 *
 * It is moved_find of mvld/pass.h: where code runs besides, or instead.  By any thread, at any time. */
#define OUTSIDE_NOTE 3

#endif
