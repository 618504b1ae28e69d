/* SPDX-License-Identifier: MIT
 *
 * As many variants as may be: the run time takes the record, and all of them bind.
 * A failure means that the compiler writes what the run time cannot read.
 * options: -fplugin-arg-multiverse-max-variants=512
 * only: -O1 -fPIE -pie
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdbool.h>

#define MV __attribute__((multiverse))
MV bool s0, s1, s2, s3, s4, s5, s6, s7, s8;
bool *const all[] = {&s0, &s1, &s2, &s3, &s4, &s5, &s6, &s7, &s8};

MV int nine(void)
{
    return s0 + 2 * s1 + 4 * s2 + 8 * s3 + 16 * s4 + 32 * s5 + 64 * s6 + 128 * s7 + 256 * s8;
}

int main(void)
{
    descriptors_read();
    CHECK(find_function((void *)nine)->n_variants == 256);
    for (int bits = 0; bits < 512; bits++) {
        for (int i = 0; i < 9; i++)
            *all[i] = bits >> i & 1;
        CHECK(multiverse_commit_fn((void *)nine) >= 0);
        CHECK(multiverse_is_committed((void *)nine) == 1);
        CHECK(nine() == bits);
        for (int i = 0; i < 8; i++)
            *all[i] ^= 1;
        CHECK(nine() == bits);
    }
    return 0;
}
