/* SPDX-License-Identifier: MIT
 *
 * common/users_cache.c: see paths.h.
 */
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include "rimf/base/cache.h"
#include "rimf/base/sys.h"
#include "rimf/base/trusted.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

size_t path_users_cache(char *to, size_t size, const char *what, const char **wrong)
{
    size_t length = cache_user_folder(to, size, getenv("XDG_CACHE_HOME"), getenv("HOME"), what), named;
    const char *why;
    struct stat st;
    int error = length ? trusted_path(&rimf_sys_kernel, to, geteuid(), &st, &why, &named) : 0;

    *wrong = NULL;
    if (!error || error == -ENOENT)
        return length;
    *wrong = must_print("%s: nothing there is believed, because of %.*s: %s", to, (int)named, to, why);
    return 0;
}
