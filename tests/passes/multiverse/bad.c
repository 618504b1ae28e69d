/* SPDX-License-Identifier: MIT
 *
 * A library with a wrong descriptor: multiverse_bad LIBRARY SENTENCE VALUE.  The
 * report names what is wrong, the library's code is unchanged (VALUE 100) or as
 * committed where the fault does not touch it (1000), and the rest of the program
 * is committed as ever.
 */
#include <dlfcn.h>

#include "check.h"

int main(int argc, char **argv)
{
    int (*call)(void), changed;
    void *library;

    CHECK(argc == 4);
    CHECK(multiverse_init() == 0);
    library = dlopen(argv[1], RTLD_NOW);
    CHECK(library, "(%s)", dlerror());
    call = (int (*)(void))dlsym(library, "call_bad");
    CHECK(call() == 100);
    changed = multiverse_commit();
    CHECK(changed >= 1);
    CHECK(strstr(multiverse_report(), argv[2]), "(want %s)", argv[2]);
    CHECK(!*argv[2] || strstr(multiverse_report(), "libbad_"), "(no object is named)");
    CHECK(call() == atoi(argv[3]), "(%d)", call());
    check_calls("beside a bad library", 1000, 1000);
    CHECK(multiverse_revert() >= 1);
    CHECK(call() == 100);
    check_calls("reverted", 100, 100);
    return 0;
}
