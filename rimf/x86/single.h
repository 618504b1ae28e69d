/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/single.h: functions of a single instruction, which may replace their calls.
 *
 *     f:  mov $1, %eax            call f     e8 rel32            mov $1, %eax    b8 01 00 00 00
 *         ret
 *
 *     g:  xor %eax, %eax          call g     e8 rel32            xor %eax, %eax  2e 2e 2e 31 c0
 *         ret
 *
 * A call has five bytes.  The instruction must fit, and its address must not be observable: it sets
 * a register, to a constant or from registers.  It does not access memory, so it never faults (a
 * fault handler may know the place by its address); it depends neither on the stack, where the call
 * would have pushed its return address, nor on its own address.  It has the same effect on flags as
 * the function.  Prefixes without effect fill it up, so that it is one instruction, as the call
 * was.
 *
 * A function that does nothing is excluded: such functions are called so that debuggers can break
 * there (__jit_debug_register_code).
 */
#ifndef RIMF_SINGLE_H
#define RIMF_SINGLE_H

#include <stddef.h>
#include <stdint.h>

#define SINGLE_CALL 5u /* e8 rel32 */

/* Reads the function at `code`, of which `room` bytes may be read, and encodes the replacement of a
 * call.  1, or 0: it is not of that kind. */
int single_read(const uint8_t *code, size_t room, uint8_t made[SINGLE_CALL]);
/* Whether these bytes are such a replacement. */
int single_stands(const uint8_t made[SINGLE_CALL]);

#endif
