/* SPDX-License-Identifier: MIT
 *
 * paths.c: see paths.h.  MVLD_* come from meson.build.
 */
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *path_beside(const char *relative)
{
    char self[4096], *slash, *path;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n <= 0)
        return NULL;
    self[n] = 0;
    for (int i = 0; i < 2 && (slash = strrchr(self, '/')); i++)
        *slash = 0;
    path = must_print("%s/%s", self, relative);
    if (!access(path, F_OK))
        return path;
    free(path);
    return NULL;
}

const char *path_loader(void)
{
    const char *built = path_beside("loader/ld-mvld.so.1");
    return built ? built : MVLD_LOADER;
}

const char *path_library(void)
{
    const char *built = path_beside("passes/multiverse/library/libmultiverse.so.1");
    return built ? built : MVLD_LIBRARY;
}

char *path_starter(void)
{
    char *built = path_beside("tools/mvld-run");
    return built ? built : must_print("%s", MVLD_STARTER);
}

char *path_mvld(void)
{
    char *built = path_beside("tools/mvld");
    return built ? built : must_print("%s", MVLD_COMMAND);
}

const char *path_host_loader(void)
{
    return access(MVLD_HOST_LOADER_DIVERTED, F_OK) ? MVLD_HOST_LOADER : MVLD_HOST_LOADER_DIVERTED;
}
