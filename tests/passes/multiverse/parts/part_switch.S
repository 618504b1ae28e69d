/* SPDX-License-Identifier: MIT
 *
 * The switch of the common fixture: int mode. */
#include "descriptors.h"
    .data
    .globl mode
    .type mode, @object
    .size mode, 4
    .balign 4
mode:
    .long 0
    switch mode, 4, SIGNED|DEFINED
    note
