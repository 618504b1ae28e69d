/* SPDX-License-Identifier: MIT
 *
 * room.h: the size of the region for moved code, for C and the assembler.
 */
#ifndef CONCAT_ROOM_H
#define CONCAT_ROOM_H

#define CONCAT_CODE_SIZE 0x10000000  /* of mvld_moved_code: 256 MiB */
#define CONCAT_FRAMES_SIZE 0x4000000 /* of mvld_moved_frames: 64 MiB */

#endif
