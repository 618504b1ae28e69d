/* SPDX-License-Identifier: MIT
 *
 * /proc/self/maps with any bytes in it, as a kernel that knows no PROCMAP_QUERY gives it: a mapping that is
 * found holds the address that was asked for, and nothing is read beyond its buffer.
 *
 * The first byte of the input is how much one read gives.
 */
#include "rimf/patch/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct kernel {
    struct rimf_sys sys;
    const uint8_t *text;
    size_t size, at, step;
};

static long call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                 long f)
{
    struct kernel *k = (struct kernel *)(uintptr_t)sys;
    size_t n;

    (void)a, (void)d, (void)e, (void)f;
    switch (nr) {
    case SYS_openat: k->at = 0; return 3;
    case SYS_close: return 0;
    case SYS_read:
        n = k->size - k->at;
        n = n < k->step ? n : k->step;
        n = n < (size_t)c ? n : (size_t)c;
        memcpy((void *)b, k->text + k->at, n);
        k->at += n;
        return (long)n;
    default: return -ENOTTY;
    }
}

static void maps(struct kernel *k)
{
    static const uint64_t addresses[] = {0, 0x1000, 0x400fff, 0x7f0000000000, UINT64_MAX - 1};
    struct patch_maps m = {0};
    struct patch_vma v;
    char name[16];

    for (size_t i = 0; i < RIMF_COUNT(addresses); i++) {
        if (patch_maps_open(&m, &k->sys, 1))
            abort();
        /* One that holds the address, then one further on. */
        for (size_t j = i; j < RIMF_COUNT(addresses); j++) {
            if (patch_maps_find(&m, addresses[j], &v, j == i ? name : NULL, sizeof name))
                continue;
            if (v.start > addresses[j] || v.end <= addresses[j])
                abort();
            if (j == i && !memchr(name, 0, sizeof name))
                abort();
        }
        patch_maps_close(&m);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kernel k = {.sys = {call}};

    if (!size)
        return 0;
    k.step = data[0] ? data[0] : 4096;
    k.text = data + 1;
    k.size = size - 1;
    maps(&k);
    return 0;
}
