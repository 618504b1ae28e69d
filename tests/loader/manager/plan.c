/* SPDX-License-Identifier: MIT
 *
 * plan PROGRAM: prints the pipeline of a program as the loader would plan it in
 * this environment (exit 0), "nothing" (exit 3), or why it is refused (exit 1).
 * For the tests written in Python.
 */
#include "loader/manager/pipeline.h"

#include "rimf/base/log.h"
#include "rimf/base/sys.h"

#include <stdio.h>
#include <unistd.h>

static void print_line(void *cookie, const char *line)
{
    (void)cookie;
    puts(line);
}

int main(int argc, char **argv)
{
    struct rimf_log log = {.sys = &rimf_sys_kernel, .fd = -1};
    struct pipeline_query query = {.sys = &rimf_sys_kernel, .log = &log, .envp = environ,
                                   .program = argv[argc - 1], .name = argv[argc - 1]};
    struct pipeline *pipeline;
    char why[1024];

    if (argc != 2)
        return 2;
    if (pipeline_plan(&query, &pipeline, why, sizeof(why))) {
        puts(why);
        return 1;
    }
    if (!pipeline) {
        puts("nothing");
        return 3;
    }
    pipeline_print(pipeline, print_line, NULL);
    pipeline_free(pipeline);
    return 0;
}
