/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/patches.h: patches of code bytes.  Included by mvld/pass.h.
 */
#ifndef MVLD_PASS_PATCHES_H
#define MVLD_PASS_PATCHES_H

#include <stddef.h>
#include <stdint.h>

#define MVLD_PATCH_MAX 16u

/* One patch: the `length` bytes at `address` must be `expect`, and become `replace`.  Refused with -ESTALE if
 * they are not; -EFAULT if the range is not executable memory of an object in the image; -EEXIST if it overlaps
 * another patch of the batch; -EDEADLK if other threads run and the bytes cannot be changed safely under them;
 * -EXDEV if the code was moved and the batch does not change the same bytes where they run (moved_find). */
struct mvld_patch {
    uintptr_t address;
    uint8_t length; /* 1 .. MVLD_PATCH_MAX */
    uint8_t expect[MVLD_PATCH_MAX];
    uint8_t replace[MVLD_PATCH_MAX];
    int result;     /* out: 0, or the error */
};

/* One of many patches of 4 to 8 bytes, or half of one of up to 16.  Its bytes are in words of their own, the
 * first byte in the lowest: see patch_add_words. */
struct mvld_word {
    uint32_t offset; /* from the base of its array */
    uint16_t length;
    uint16_t joined; /* 1: the next word of the array continues the instruction */
};

struct mvld_patch_report {
    size_t applied, refused;
    const char *method; /* "mprotect", "remap", "selfmem", … */
};

#endif
