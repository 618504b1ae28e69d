/* SPDX-License-Identifier: MIT
 *
 * library/describe.c: multiverse_dump_info.
 */
#include <string.h>
#include <unistd.h>

#include "passes/multiverse/library/library.h"

/* A direct system call: write(2) would be a cancellation point, with the engine's lock held. */
static void print_item(void *cookie, const struct mv_item *item)
{
    char line[512];
    size_t length;

    (void)cookie;
    mv_describe(item, line, sizeof line - 1);
    length = strlen(line);
    line[length++] = '\n';
    sys_write(&rimf_sys_kernel, STDERR_FILENO, line, length);
}

void multiverse_dump_info(void)
{
    mv_each(print_item, NULL);
}
