/* SPDX-License-Identifier: MIT
 *
 * rimf/base/hash.c: a hash against accidental damage.
 */
#include "rimf/base/hash.h"

#include "rimf/base/base.h"

uint64_t rimf_hash_more(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t word;

    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = rimf_mix(hash, word);
    }
    if (size) {
        word = 0;
        memcpy(&word, at, size);
        hash = rimf_mix(hash, word);
    }
    return hash;
}

/* The length is hashed first, so that trailing zeros count. */
uint64_t rimf_hash(const void *bytes, size_t size)
{
    return rimf_hash_more(rimf_mix(0, size), bytes, size);
}
