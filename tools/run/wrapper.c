/* SPDX-License-Identifier: MIT
 *
 * run/wrapper.c: see wrapper.h.
 *
 * Without mvld, or with MVLD=off, the script starts the program plainly.  It sets no variable: one
 * of that name might be in the environment, and so the program's.
 */
#include "tools/run/wrapper.h"
#include "tools/common/tools.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "#!/bin/sh\n# made by `mvld enable'; `mvld disable' removes it\n# starts "

char *wrapper_text(const char *program)
{
    char *mvld = realpath("/proc/self/exe", NULL);
    char *text = must_print(HEAD "%s\n"
                            "test \"$MVLD\" = off || test ! -x '%s' || exec '%s' run -- '%s' \"$@\"\n"
                            "exec '%s' \"$@\"\n",
                            program, mvld ? mvld : "", mvld ? mvld : "", program, program);
    free(mvld);
    return text;
}

char *wrapper_program(const char *path)
{
    char text[sizeof HEAD + 4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    char *program = text + strlen(HEAD), *end = strncmp(text, HEAD, strlen(HEAD)) ? NULL : strchr(program, '\n');
    return end ? must_print("%.*s", (int)(end - program), program) : NULL;
}
