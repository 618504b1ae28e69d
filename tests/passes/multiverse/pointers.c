/* SPDX-License-Identifier: MIT
 *
 * Function pointers as variation points: bound to where they point, over several
 * commits, NULL, out of reach, from two objects; what is done by short functions.
 */
#include <sys/mman.h>

#include "check.h"

extern int (*pointer)(void);
int call_one(void), jump_one(void), call_two(void), jump_two(void);
extern int choose;
extern unsigned char site_one[], site_two[];
int nothing(void), five(void), point(void); /* nothing leaves eax: 77, by the callers */

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

/* The body stands where the call was; a revert, and another commit, take it away. */
static void short_functions(void)
{
    static const unsigned char nop[] = {0x0f, 0x1f, 0x44, 0, 0};
    static const unsigned char mov[] = {0xb8, 5, 0, 0, 0};

    pointer = nothing;
    CHECK(multiverse_commit() >= 1);
    gives(77);
    CHECK(!memcmp(site_one, nop, 5) && !memcmp(site_two, nop, 5), "an empty function is called");
    pointer = five;
    gives(77);
    CHECK(multiverse_commit_fn(&pointer) == 1);
    gives(5);
    CHECK(!memcmp(site_one, mov, 5), "an instruction is called");
    CHECK(multiverse_revert() >= 1);
    gives(5);
    CHECK(site_one[0] == 0xe8, "not reverted");

    /* A variation point is called, since what it does is decided at its entry. */
    pointer = point;
    CHECK(multiverse_commit_fn(&pointer) == 1);
    gives(77);
    CHECK(site_one[0] == 0xe8, "the generic of a variation point was copied");
    choose = 1;
    CHECK(multiverse_commit_fn((void *)point) == 1);
    gives(7);
    CHECK(multiverse_revert() == 2);
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

    choose = 1; /* all other functions have a variant */
    CHECK(multiverse_commit() == 2);
    CHECK(multiverse_commit() == 0 && multiverse_commit() == 0, "all is as it was");
    pointer = second;
    CHECK(multiverse_commit() == 1, "only the pointer has changed");
    gives(2);
    choose = 0;
    pointer = far_function();
    CHECK(multiverse_commit() == 2);
    CHECK(strstr(multiverse_report(), "out of reach"));
    gives(3);
    CHECK(multiverse_is_committed(&pointer) == 0);
    pointer = second;
    gives(2);
    short_functions();
    return 0;
}
