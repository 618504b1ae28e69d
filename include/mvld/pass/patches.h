/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/patches.h: patches of code bytes.  Included by mvld/pass.h.
 */
#ifndef MVLD_PASS_PATCHES_H
#define MVLD_PASS_PATCHES_H

#include <stddef.h>
#include <stdint.h>

/* Patches.  [any thread], serialised by one process-wide lock.  patch_begin returns NULL if out of memory,
 * or in the stages map and relocate.  patch_add returns 0, -EINVAL, or -ENOMEM.  patch_commit applies the
 * patches that verify, and sets the `result` of the others; it returns 0, or negative errno if nothing was
 * changed.  The batch is readable until patch_end; patch_at returns NULL behind the last patch.  A commit restores
 * protections; no page is ever writable and executable.  Patches stay if their pass fails later.  A later pass does
 * not move an object whose code is patched inside run.  Moved code must be patched where it runs, and also where it
 * was mapped if the original runs, too, in the same batch (moved_find); otherwise it is refused.
 *
 * Outside of the pass's functions, no object may be unmapped while a commit changes it: the process
 * would end as if the program had written there.  `removed` is called after dlclose, which is too late.
 * A thread that commits must hold the objects: the pass's library can, by dlopen with RTLD_NOLOAD. */

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

/* patch_add_words adds n patches at base + offset, by ascending address.  A patch whose words of `expect` and
 * `replace` are equal is left out.  The arrays are not copied: they must not change until patch_end.  patch_at lists
 * these patches, in the same order after those of patch_add and with two joined words as one, only after a commit
 * that refused some, or failed.  Moved code is not considered: call moved_find.  [any thread]  Returns 0, -EINVAL,
 * -ENOMEM. */

/* depends is for passes with MVLD_PASS_FREEZES that apply patches; edits record their dependencies themselves.  Says
 * that the pass's changes of `object` are right if the same files are mapped at the same distances, and the
 * 8-aligned word at `word`, in any object's memory, has the same target.  `word` may be 0: there is no
 * further dependency.  A snapshot may lack patches without this call.  Nearly free when no snapshot is
 * made.  Returns 0, -ENOMEM, -EINVAL; -ENOTSUP: the object is unplaced (MVLD_OBJECT_UNPLACED) and must not
 * be changed.  The pass itself makes sure that it writes no distance to such an object. */

struct mvld_patch_report {
    size_t applied, refused;
    const char *method; /* "mprotect", "remap", "selfmem", … */
};

#endif
