/* SPDX-License-Identifier: MIT
 *
 * More variants than a record can tell of are not made, whatever was allowed.
 * options: -fplugin-arg-multiverse-max-variants=512
 */
#include <stdbool.h>
#define MV __attribute__((multiverse))
MV bool s0, s1, s2, s3, s4, s5, s6, s7, s8;
MV int nine(void) /* warning: would have 512 variants, more than a record of 64 KB holds; it is specialised for s0, s1, s2, s3, s4, s5, s6, s7 only */
{
    return s0 + 2 * s1 + 4 * s2 + 8 * s3 + 16 * s4 + 32 * s5 + 64 * s6 + 128 * s7 + 256 * s8;
}
