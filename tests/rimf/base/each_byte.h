/* SPDX-License-Identifier: MIT
 *
 * each_byte.h: of a small file, every bit flipped, in turn, and every length cut short.
 */
#ifndef EACH_BYTE_H
#define EACH_BYTE_H

#include "../../check.h"

#include <stdint.h>

/* `open_made` opens the first bytes of what was made: NULL, or why they are refused.  Only the
 * whole is taken, as it was made. */
static void each_byte_counts(void *made, size_t n, const char *(*open_made)(size_t size))
{
    uint8_t *bytes = made;

    for (size_t i = 0; i < n; i++) {
        for (int bit = 1; bit < 256; bit <<= 1) {
            bytes[i] ^= (uint8_t)bit;
            CHECK(open_made(n), "byte %zu, bit %x", i, bit);
            bytes[i] ^= (uint8_t)bit;
        }
    }
    for (size_t size = 0; size < n; size++)
        CHECK(open_made(size), "%zu bytes", size);
    CHECK(!open_made(n));
}

#endif
