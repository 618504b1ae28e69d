/* SPDX-License-Identifier: MIT
 *
 * How many frames there are above it, of this program.
 */
#include <execinfo.h>

int called(int last);

int called(int last)
{
    void *at[32];

    return last ? backtrace(at, 32) : 0;
}
