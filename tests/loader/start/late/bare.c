/* SPDX-License-Identifier: MIT
 *
 * A library without DT_INIT and DT_INIT_ARRAY (linked with -nostartfiles); with
 * MUTE without any relocation too.
 */
__attribute__((visibility("protected"))) int mark; /* not the executable's */
#ifndef MUTE
int *pointer_to_mark = &mark;
#endif
