/* SPDX-License-Identifier: MIT
 *
 * libingest.so: the hot path.  Five calls a line go to libstore's variation
 * points; they are what a commit patches.
 */
#include "service.h"

#include <stdio.h>
#include <string.h>

/* Runs before main: shows what a constructor already sees. */
__attribute__((constructor)) static void look(void)
{
    struct multiverse_runtime r = service_runtime();
    if (!r.info_fn)
        return (void)puts("constructor of libingest: no multiverse run time in this process");
    const struct multiverse_info_fn *info = r.info_fn((void *)checksum);
    printf("constructor of libingest: checksum() is bound to %s\n",
           info && info->active_name ? info->active_name : "its generic");
}

void ingest_line(const char *line, size_t length)
{
    const char *end = line + length;
    const char *key = memchr(line, ' ', length);
    if (!key)
        return;
    key++;
    const char *value = memchr(key, ' ', (size_t)(end - key));
    if (!value)
        return;
    size_t key_length = (size_t)(value - key);
    uint64_t number = 0;
    for (const char *p = value + 1; p < end && *p >= '0' && *p <= '9'; p++)
        number = number * 10 + (uint64_t)(*p - '0');

    trace("parsed", number);
    uint32_t sum = checksum(line, length);
    store_lock();
    store_add(key, key_length, number);
    store_note_checksum(sum);
    store_unlock();
    trace("stored", sum);
}
