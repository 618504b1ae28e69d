/* SPDX-License-Identifier: MIT
 *
 * Requests of `mvld switch -p`: a switch is written only where the request has its address and its name, since another
 * library may have come to that address since the tool saw the list; a damaged request changes nothing.
 */
#include "../check.h"

int multiverse_request(const char *request, char *text, size_t size);

static char answer[65536];

static int request(const char *word, const char *writes)
{
    char text[256];

    snprintf(text, sizeof text, "%s %lx=1%s", word, (unsigned long)&mode, writes);
    return multiverse_request(text, answer, sizeof answer);
}

static void changes_nothing(const char *word, const char *writes)
{
    CHECK(request(word, writes) == -EINVAL && *answer, "(%s, %s: %s)", word, writes, answer);
    CHECK(mode == 0);
    check_calls(writes, 100, 100);
}

int main(void)
{
    static const char *const words[] = {"commit", "revert", "keep"};

    for (int i = 0; i < 3; i++) {
        changes_nothing(words[i], ":other");
        changes_nothing(words[i], ":mod");
        changes_nothing(words[i], ":mode2");
        changes_nothing(words[i], ":");
        changes_nothing(words[i], ":mode 1=1:mode"); /* the first may be, the second not */
        changes_nothing(words[i], ":mode x");
    }
    CHECK(multiverse_request("commit 0", answer, sizeof answer) == -EINVAL);
    CHECK(multiverse_request("commits", answer, sizeof answer) == -ENOSYS);

    CHECK(!request("keep", ":mode") && mode == 1);
    check_calls("kept", 101, 101);
    mode = 0;
    CHECK(!request("commit", ":mode") && mode == 1 && !strncmp(answer, "1\t0\t0\t0\n", 8), "(%s)", answer);
    check_calls("committed", 1001, 1001);
    CHECK(!request("revert", "") && mode == 1); /* older tools say no name */
    check_calls("reverted", 101, 101);
    return 0;
}
