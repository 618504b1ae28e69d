/* SPDX-License-Identifier: MIT
 *
 * The executable interposes a library's variation point with a function that has
 * no descriptors: recorded calls reach that function before and after a commit,
 * and nothing is said about them.  Variants must not run for a function that the
 * dynamic linker did not choose.
 */
#include "check.h"

int main(void)
{
    mode = 0;
    check_calls("at first", 5, 5);
    CHECK(multiverse_commit() == 1, "the library's own is bound, though nobody calls it");
    CHECK(!*multiverse_report());
    check_calls("committed", 5, 5);
    CHECK(multiverse_revert() == 1);
    check_calls("reverted", 5, 5);
    errno = 0;
    CHECK(multiverse_commit_fn(decide) == -1 && errno == EINVAL);
    return 0;
}
