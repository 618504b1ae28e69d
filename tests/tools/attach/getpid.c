/* SPDX-License-Identifier: MIT
 *
 * getpid PID ROUNDS [FUNCTION]: has a thread of the process call getpid(), or a function of its program, so often.  Prints
 * its value, once, and the longest pause in microseconds.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t value = 0, longest = 0;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 1;

    for (long i = 0; argc > 1 && i < rounds; i++) {
        struct attach *a = attach_open((pid_t)strtol(argv[1], NULL, 10));
        const struct attach_object *libc;

        if (a->why[0] || attach_list(a) || attach_begin(a, 5000)) {
            puts(a->why);
            attach_close(a);
            return 1;
        }
        libc = attach_named(a, "libc.so");
        if (attach_call(a, argc > 3 ? attach_function(a, a->objects, argv[3])
                                    : attach_function(a, libc ? libc : a->objects, "getpid"), NULL, 0, &value) || attach_end(a)) {
            puts(a->why);
            attach_close(a);
            return 1;
        }
        longest = a->pause > longest ? a->pause : longest;
        attach_close(a);
    }
    printf("%lu %lu\n", value, longest / 1000);
    return 0;
}
