/* SPDX-License-Identifier: MIT
 *
 * rimf/base/hash.h: a 64-bit hash against accidental damage, not against forgery.
 */
#ifndef RIMF_HASH_H
#define RIMF_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Adds eight bytes to a hash: multiply and fold. */
static inline uint64_t rimf_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio */
    return hash ^ hash >> 29;
}
/* A 64-bit hash against accidents; `bytes` may have any alignment. */
uint64_t rimf_hash(const void *bytes, size_t size);
/* Continues `hash` over these bytes. */
uint64_t rimf_hash_more(uint64_t hash, const void *bytes, size_t size);

#endif
