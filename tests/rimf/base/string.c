/* SPDX-License-Identifier: MIT
 *
 * The freestanding memcpy, memmove, memset, memcmp do what libc's do.  A failure
 * means that the loader and passes corrupt memory.  Built with the four renamed,
 * so that both can be called.
 */
#include "../../check.h"

#include <stdint.h>

void *rimf_memcpy(void *restrict to, const void *restrict from, size_t n);
void *rimf_memmove(void *to, const void *from, size_t n);
void *rimf_memset(void *to, int byte, size_t n);
int rimf_memcmp(const void *a, const void *b, size_t n);

static uint8_t is[256], want[256];

static void fresh(void)
{
    for (int i = 0; i < 256; i++)
        is[i] = want[i] = (uint8_t)(i * 7 + 3);
}

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

int main(void)
{
    for (size_t n = 0; n < 70; n++) {
        for (size_t to = 0; to < 140; to++) {
            fresh();
            CHECK(rimf_memmove(is + to, is + 64, n) == is + to);
            memmove(want + to, want + 64, n);
            CHECK(memcmp(is, want, sizeof is) == 0, "(memmove to %zu, %zu bytes)", to, n);
        }
        fresh();
        CHECK(rimf_memcpy(is + 1, is + 128, n) == is + 1);
        memcpy(want + 1, want + 128, n);
        CHECK(rimf_memset(is + 100, 0x1a5, n % 20) == is + 100);
        memset(want + 100, 0x1a5, n % 20);
        CHECK(memcmp(is, want, sizeof is) == 0, "(%zu bytes)", n);
        for (size_t at = 0; at < n; at++) {
            fresh();
            want[at] ^= 0x80;
            CHECK(sign(rimf_memcmp(is, want, n)) == sign(memcmp(is, want, n)));
            CHECK(rimf_memcmp(is, want, at) == 0);
        }
    }
    return 0;
}
