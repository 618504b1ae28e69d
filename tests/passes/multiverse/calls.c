/* SPDX-License-Identifier: MIT
 *
 * Commit and revert over every encoding of a call site.  Built once for each
 * place that switch, function and sites may be in, and for each way to link
 * them.  A failure says which encoding runs the wrong code when.
 */
#include "check.h"

static void save(unsigned char (*bytes)[8])
{
    for (size_t i = 0; callers[i].name; i++)
        memcpy(bytes[i], callers[i].site, 8);
}

int main(int argc, char **argv)
{
    int functions = argc > 1 ? atoi(argv[1]) : 1;
    int far = argc > 2 && atoi(argv[2]), plt = argc > 3;
    unsigned char before[32][8], after[32][8];

    save(before);
    CHECK(multiverse_init() == 0);
    CHECK(multiverse_init() == 0);
    check_calls("at first", 100, 100);
    mode = 5;
    check_calls("not committed", 105, 105);

    mode = 0;
    CHECK(multiverse_commit() == functions);
    /* Nothing is left out, but that a plain ld.so puts libraries far from a PIE. */
    CHECK(!*multiverse_report() || (far && strstr(multiverse_report(), "out of reach")));
    check_calls("mode 0", 1000, 1000);
    /* mov $1000,%eax stands in the site itself, however far the variant is */
    CHECK(!strcmp(callers[0].name, "e8"));
    CHECK(!memcmp(callers[0].site, "\xb8\xe8\x03\x00\x00", 5));
    for (const struct caller *c = callers; c->name; c++)
        CHECK(strcmp(c->name, "90e8") || !memcmp(c->site, "\x90\xb8\xe8\x03\x00\x00", 6), "behind the NOP");
    mode = 1;
    check_calls("mode 0 in force", 1000, 1000);
    CHECK(multiverse_commit() == functions);
    check_calls("mode 1", 1001, 1001);
    CHECK(multiverse_commit() == 0);
    mode = 7;
    CHECK(multiverse_commit_refs(&mode) == functions);
    check_calls("mode 7", 77, 0);
    CHECK(!memcmp(callers[0].site, "\x0f\x1f\x44\x00\x00", 5), "an empty variant is a NOP");
    CHECK(!strcmp(callers[1].name, "e9") && callers[1].site[0] == 0xc3, "and in a tail call ret");
    mode = -3;
    CHECK(multiverse_commit() == functions);
    CHECK(strstr(multiverse_report(), "no variant fits"));
    check_calls("mode -3: the generic", 97, 97);
    mode = 4;
    check_calls("the generic follows", 104, 104);

    mode = 0;
    CHECK(multiverse_commit() == functions);
    check_calls("mode 0 again", 1000, 1000);
    CHECK(multiverse_is_committed(decide) == 1);
    CHECK(multiverse_revert() == functions);
    CHECK(multiverse_is_committed(decide) == 0);
    mode = 2;
    check_calls("reverted", 102, 102);
    save(after);
    for (size_t i = 0; callers[i].name; i++)
        CHECK(!memcmp(before[i], after[i], 8), "(%s keeps other bytes)", callers[i].name);

    mode = 1;
    CHECK(multiverse_commit_fn(decide) == 1);
    CHECK(multiverse_commit_fn(decide) == 0);
    CHECK(multiverse_revert_fn(decide) == 1);
    CHECK(multiverse_info_fn(decide)->n_callsites >= 8);
    CHECK(plt || multiverse_info_fn(decide)->function == (void *)decide);
    CHECK(multiverse_info_var(&mode)->location == &mode);
    CHECK(!strcmp(multiverse_info_var(&mode)->name, "mode"));
    return 0;
}
