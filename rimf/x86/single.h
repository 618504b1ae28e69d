/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/single.h: functions of a single instruction, which may stand where they are called.
 *
 *     f:  mov $1, %eax            call f     e8 rel32            mov $1, %eax    b8 01 00 00 00
 *         ret
 *
 *     g:  xor %eax, %eax          call g     e8 rel32            xor %eax, %eax  2e 2e 2e 31 c0
 *         ret
 *
 * A call is five bytes.  Taken is an instruction that fits, and of which nobody can tell where it
 * runs: it sets a register, to a constant or from registers.  It reads and writes no memory, so that
 * it never faults (who handles a fault may know the place by its address), it knows neither the
 * stack, on which the call would have left its return address, nor its own place.  It leaves the flags as
 * the function did.  Prefixes without a meaning fill it up, so that it is one instruction, as
 * the call was.
 *
 * A function that does nothing at all is none: such are called to be found by debuggers
 * (__jit_debug_register_code).
 */
#ifndef RIMF_SINGLE_H
#define RIMF_SINGLE_H

#include <stddef.h>
#include <stdint.h>

#define SINGLE_CALL 5u /* e8 rel32 */

/* The function at `code`, of which `room` bytes can be read: what may stand for a call of it.  1, or
 * 0: it is not of that kind. */
int single_read(const uint8_t *code, size_t room, uint8_t made[SINGLE_CALL]);
/* Do these bytes stand for a call? */
int single_stands(const uint8_t made[SINGLE_CALL]);

#endif
