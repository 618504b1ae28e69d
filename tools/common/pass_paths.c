/* SPDX-License-Identifier: MIT
 *
 * pass_paths.c: the folders of passes; see paths.h.  MVLD_* come from meson.build.
 */
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

const char *path_passes(void)
{
    const char *named = getenv("MVLD_PASS_PATH");
    const char *folders = named && *named ? named : path_pass_folders();
    return folders ? must_print("%s:%s", folders, MVLD_PASS_DIR) : MVLD_PASS_DIR;
}

const char *path_pass_folders(void)
{
    char *folder = path_beside("passes");
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
    free(folder);
    return all;
}
