/* SPDX-License-Identifier: MIT
 *
 * The program, as a preloaded library might, has a dl_iterate_phdr of its own, which only it may
 * call, as that of fakechroot writes into the names of objects.  A failure means that the library
 * calls functions that the program put in the place of the C library's.
 */
#include <link.h>

#include "../check.h"

static int n_calls;

int dl_iterate_phdr(int (*with)(struct dl_phdr_info *, size_t, void *), void *cookie)
{
    (void)with;
    (void)cookie;
    return n_calls++;
}

int main(void)
{
    CHECK(n_calls == 0, "not by the constructor");
    mode = 0;
    CHECK(multiverse_commit() == 1, "the objects are found");
    CHECK(multiverse_revert() == 1);
    CHECK(n_calls == 0, "(%d calls)", n_calls);
    CHECK(dl_iterate_phdr(NULL, NULL) == 0 && n_calls == 1, "the program's own calls are its");
    return 0;
}
