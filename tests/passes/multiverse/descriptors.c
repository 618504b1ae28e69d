/* SPDX-License-Identifier: MIT
 *
 * A program that commits now and then has no descriptor of ours between its commits;
 * one that does it often has one, which it may close.  A failure means that programs
 * find descriptors open that they did not open, or lose their own.
 */
#include <unistd.h>

#include "check.h"
#include "../../count_descriptors.h"

static void commits(int n)
{
    for (int i = 0; i < n; i++) {
        mode = !mode;
        CHECK(multiverse_commit() == 1);
        check_calls("committed", 1000 + mode, 1000 + mode);
    }
}

int main(void)
{
    int before = count_descriptors();

    commits(7);
    CHECK(count_descriptors() == before);
    commits(10);
    CHECK(count_descriptors() <= before + 1);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    commits(10);
    CHECK(multiverse_revert() == 1);
    check_calls("reverted", 100 + mode, 100 + mode);
    return 0;
}
