/* SPDX-License-Identifier: MIT
 *
 * libstore.so: the table, and the variation points that every line passes.
 */
#include "service.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define SLOTS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct statistics statistics;
static struct slot {
    uint64_t hash, total;
} table[SLOTS];
static struct {
    const char *what;
    uint64_t value;
} trace_ring[256];

__attribute__((multiverse)) void store_lock(void)
{
    if (config_smp) {
        pthread_mutex_lock(&lock);
        statistics.locks++;
    }
}

__attribute__((multiverse)) void store_unlock(void)
{
    if (config_smp)
        pthread_mutex_unlock(&lock);
}

__attribute__((multiverse)) void trace(const char *what, uint64_t value)
{
    if (config_tracing) {
        size_t i = statistics.traces++ % 256;
        trace_ring[i].what = what;
        trace_ring[i].value = value;
    }
}

__attribute__((multiverse)) uint32_t checksum(const char *text, size_t length)
{
    uint32_t sum = 0;
    if (config_checksum == CHECKSUM_NONE)
        return 0;
    if (config_checksum == CHECKSUM_SUM) {
        for (size_t i = 0; i < length; i++)
            sum += (unsigned char)text[i];
        return sum;
    }
    sum = ~0u;
    for (size_t i = 0; i < length; i++) {
        sum ^= (unsigned char)text[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

void store_add(const char *key, size_t length, uint64_t value)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)key[i]) * 1099511628211u;
    for (size_t i = hash % SLOTS, n = 0; n < SLOTS; i = (i + 1) % SLOTS, n++) {
        if (table[i].hash != 0 && table[i].hash != hash)
            continue;
        table[i].hash = hash;
        table[i].total += value;
        break;
    }
    statistics.adds++;
}

uint64_t store_total(void)
{
    uint64_t total = 0;
    for (size_t i = 0; i < SLOTS; i++)
        total += table[i].total;
    return total;
}

void store_note_checksum(uint32_t sum)
{
    statistics.checksums ^= sum;
}

struct statistics store_statistics(void)
{
    struct statistics now = statistics;
    memset(&statistics, 0, sizeof statistics);
    return now;
}

struct multiverse_runtime service_runtime(void)
{
    struct multiverse_runtime r;
    *(void **)&r.commit = dlsym(RTLD_DEFAULT, "multiverse_commit");
    *(void **)&r.commit_refs = dlsym(RTLD_DEFAULT, "multiverse_commit_refs");
    *(void **)&r.revert = dlsym(RTLD_DEFAULT, "multiverse_revert");
    *(void **)&r.is_committed = dlsym(RTLD_DEFAULT, "multiverse_is_committed");
    *(void **)&r.info_fn = dlsym(RTLD_DEFAULT, "multiverse_info_fn");
    return r;
}
