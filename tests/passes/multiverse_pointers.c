/* SPDX-License-Identifier: MIT
 *
 * Function pointers as variation points: bound to where they point, over several
 * commits, NULL, out of reach, from two objects.
 */
#include <sys/mman.h>

#include "multiverse_check.h"

extern int (*pointer)(void);
int call_one(void), jump_one(void), call_two(void), jump_two(void);

static int first(void) { return 1; }
static int second(void) { return 2; }

static void gives(int want)
{
    CHECK(call_one() == want, "(%d)", call_one());
    CHECK(jump_one() == want, "(%d)", jump_one());
    CHECK(call_two() == want, "(%d)", call_two());
    CHECK(jump_two() == want, "(%d)", jump_two());
}

/* `mov $3,%eax; ret`, 64 TiB away from everything. */
static int (*far_function(void))(void)
{
    static const unsigned char code[] = {0xb8, 3, 0, 0, 0, 0xc3};
    void *at = mmap((void *)0x100000000000, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(at != MAP_FAILED);
    memcpy(at, code, sizeof code);
    CHECK(mprotect(at, 4096, PROT_READ | PROT_EXEC) == 0);
    return (int (*)(void))at;
}

int main(void)
{
    CHECK(multiverse_commit() == 0, "NULL binds nothing");
    CHECK(strstr(multiverse_report(), "NULL"));
    CHECK(multiverse_is_committed(&pointer) == 0);

    pointer = first;
    gives(1);
    CHECK(multiverse_commit() == 1, "two stubs are one function pointer");
    pointer = second;
    gives(1);
    CHECK(multiverse_is_committed(&pointer) == 1);
    CHECK(multiverse_info_fn(&pointer)->is_pointer);
    CHECK(multiverse_info_fn(&pointer)->n_callsites == 4);
    CHECK(multiverse_info_fn(&pointer)->active == (void *)first);
    CHECK(multiverse_commit_fn(&pointer) == 1);
    gives(2);
    pointer = first;
    CHECK(multiverse_revert_fn(&pointer) == 1, "reverts what was committed twice");
    gives(1);
    pointer = second;
    gives(2);

    CHECK(multiverse_commit_fn(&pointer) == 1);
    pointer = NULL;
    CHECK(multiverse_commit_fn(&pointer) == 1, "NULL: back to the stub");
    CHECK(strstr(multiverse_report(), "NULL"));
    pointer = first;
    gives(1);

    CHECK(multiverse_commit() == 1);
    pointer = far_function();
    CHECK(multiverse_commit() == 1);
    CHECK(strstr(multiverse_report(), "out of reach"));
    gives(3);
    CHECK(multiverse_is_committed(&pointer) == 0);
    pointer = second;
    gives(2);
    return 0;
}
