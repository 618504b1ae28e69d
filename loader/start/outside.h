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
 * *to: where code runs besides, or instead; or 0.  By any thread, at any time: the code itself is not read, since its
 * object may be closed meanwhile.  The tool sees whether the original leads there. */
#define OUTSIDE_NOTE 3

#endif
