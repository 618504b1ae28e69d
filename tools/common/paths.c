/* SPDX-License-Identifier: MIT
 *
 * paths.c: see paths.h.  MVLD_* come from meson.build.
 */
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `relative` to the folder above this command's, if it exists there. */
static const char *beside(const char *relative)
{
    char *self = realpath("/proc/self/exe", NULL), *slash, *path = NULL;
    for (int i = 0; self && i < 2 && (slash = strrchr(self, '/')); i++)
        *slash = 0;
    if (self) {
        path = must_print("%s/%s", self, relative);
        if (access(path, F_OK)) {
            free(path);
            path = NULL;
        }
    }
    free(self);
    return path;
}

const char *path_loader(void)
{
    const char *built = beside("loader/ld-mvld.so.1");
    return built ? built : MVLD_LOADER;
}

const char *path_library(void)
{
    const char *built = beside("passes/multiverse/library/libmultiverse.so.1");
    return built ? built : MVLD_LIBRARY;
}

const char *path_passes(void)
{
    const char *named = getenv("MVLD_PASS_PATH");
    const char *folders = named && *named ? named : path_pass_folders();
    return folders ? must_print("%s:%s", folders, MVLD_PASS_DIR) : MVLD_PASS_DIR;
}

const char *path_pass_folders(void)
{
    const char *folder = beside("passes");
    glob_t found = {0};
    char *all = NULL;

    if (!folder)
        return NULL;
    char *pattern = must_print("%s/*/*.so", folder);
    size_t last = 0; /* length of the folder that was added last: matches are sorted */
    if (glob(pattern, 0, NULL, &found))
        found.gl_pathc = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *file = found.gl_pathv[i];
        size_t length = (size_t)(strrchr(file, '/') - file);
        if (length == last && !strncmp(all + strlen(all) - last, file, last))
            continue;
        char *more = must_print("%s%s%.*s", all ? all : "", all ? ":" : "", (int)length, file);
        free(all);
        all = more;
        last = length;
    }
    globfree(&found);
    free(pattern);
    return all;
}

const char *path_host_loader(void)
{
    return access(MVLD_HOST_LOADER_DIVERTED, F_OK) ? MVLD_HOST_LOADER : MVLD_HOST_LOADER_DIVERTED;
}
