/* SPDX-License-Identifier: MIT
 *
 * NULL and foreign pointers given to every function: -1 or NULL, EINVAL, and a
 * sentence; nothing changes and nothing crashes.
 */
#include "check.h"

#define INVALID(call)                                                                     \
    do {                                                                                  \
        errno = 0;                                                                        \
        CHECK((call) == -1);                                                              \
        CHECK(errno == EINVAL, "(errno %d)", errno);                                      \
        CHECK(*multiverse_error());                                                       \
    } while (0)
#define NOTHING(call)                                                                     \
    do {                                                                                  \
        errno = 0;                                                                        \
        CHECK((call) == NULL);                                                            \
        CHECK(errno == EINVAL, "(errno %d)", errno);                                      \
        CHECK(*multiverse_error());                                                       \
    } while (0)

static void foreign(void *p)
{
    INVALID(multiverse_commit_refs(p));
    INVALID(multiverse_revert_refs(p));
    INVALID(multiverse_commit_fn(p));
    INVALID(multiverse_revert_fn(p));
    INVALID(multiverse_commit_func(p));
    INVALID(multiverse_revert_func(p));
    INVALID(multiverse_is_committed(p));
    INVALID(multiverse_bind(p, 1));
    INVALID(multiverse_bind(p, -1));
    NOTHING(multiverse_info_var(p));
    NOTHING(multiverse_info_fn(p));
}

int main(void)
{
    int local = 0, (*pointer)(const char *) = puts;

    CHECK(!*multiverse_error());
    foreign(NULL);
    foreign((void *)1);
    foreign((void *)-1);
    foreign((void *)0x7fffffffffff);
    foreign(&local);
    foreign((void *)pointer);
    foreign((char *)&mode + 1);
    foreign((char *)decide + 1);
    foreign((void *)main);
    INVALID(multiverse_commit_refs(decide));
    INVALID(multiverse_commit_fn(&mode));
    INVALID(multiverse_bind(&mode, 1)); /* not tracked */
    INVALID(multiverse_commit_info_fn(NULL));
    INVALID(multiverse_revert_info_fn(NULL));
    INVALID(multiverse_commit_info_refs(NULL));
    INVALID(multiverse_revert_info_refs(NULL));
    check_calls("after all this", 100, 100);

    CHECK(multiverse_commit_info_fn(multiverse_info_fn(decide)) == 1);
    CHECK(!strcmp(multiverse_info_fn(decide)->name, "decide"));
    CHECK(multiverse_info_fn(decide)->active);
    CHECK(multiverse_info_fn(decide)->n_variants == 3);
    check_calls("committed", 1000, 1000);
    CHECK(multiverse_revert_info_fn(multiverse_info_fn(decide)) == 1);
    CHECK(!multiverse_info_fn(decide)->active);
    CHECK(multiverse_commit_info_refs(multiverse_info_var(&mode)) == 1);
    CHECK(multiverse_revert_info_refs(multiverse_info_var(&mode)) == 1);
    multiverse_dump_info();
    check_calls("reverted", 100, 100);
    return 0;
}
