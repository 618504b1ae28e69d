/* SPDX-License-Identifier: MIT
 *
 * site.h: the instructions at a site, before and after.
 *
 *     e8 rel32         call entry           e8 rel32         call target
 *     e9 rel32         jmp  entry           e9 rel32         jmp  target
 *     0f 8x rel32      jcc  entry           0f 8x rel32      jcc  target
 *     ff 15 rel32      call *slot(%rip)     67 e8 rel32      addr32 call target
 *     ff 25 rel32      jmp  *slot(%rip)     e9 rel32 90      jmp  target; (nop)
 *     e8 rel32         call f               what f does, when that is a single instruction
 *                                           (rimf/single.h)
 *
 * Each is one instruction before and after, so that a thread may stand before it or
 * behind it while it is changed.  67 means nothing to a call and is what linkers write
 * there.  The nop is never reached.  Prefixes in front (bnd, notrack) mean to the new
 * instruction what they meant to the old one; the analyser lists no site behind 66 that
 * would change its meaning.
 */
#ifndef DIRECT_SITE_H
#define DIRECT_SITE_H

#include "mvld/pass.h"

#define SITE_MAX 6u

struct site {
    uintptr_t address;
    uint8_t length;
    uint64_t old, made; /* the bytes, the first in the lowest byte; zeros behind them */
    uintptr_t leads;    /* to an entry of the PLT, to a slot, or to f */
    int to_slot;     /* the latter */
};

/* Reads the instruction at `address`, of which `room` bytes can be read.  0 when it is
 * not of this kind. */
int site_read(struct site *, enum mvld_reference_kind, uintptr_t address, size_t room);
/* Makes the instruction that leads to `target`.  0 when that is out of reach. */
int site_make(struct site *, uintptr_t target);
/* Makes it the instruction of the function that it calls, of which `room` bytes can be read.  0
 * when that is none that may stand here. */
int site_inline(struct site *, size_t room);

#endif
