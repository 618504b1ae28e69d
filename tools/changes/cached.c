/* SPDX-License-Identifier: MIT
 *
 * changes/cached.c: see changes/cached.h.  These files can be made again, so nothing here is an error.
 */
#include "tools/changes/cached.h"
#include "tools/changes/changes.h"
#include "tools/changes/made.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/interp/interp.h"

#include "loader/config/config.h"
#include "rimf/base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_CACHE "/var/cache/mvld"

/* The cache that belongs to this record alone; to be freed, or NULL. */
static char *cache_of_record(void)
{
    char own[4096];
    const char *wrong;

    if (getenv("MVLD_STATE"))
        return NULL;
    if (!geteuid())
        return must_print(SYSTEM_CACHE);
    return path_users_cache(own, sizeof own, "", &wrong) ? must_print("%s", own) : NULL;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

/* Their folders are named after the program (loader/store/folder.c). */
void cached_snapshots_remove(const char *program)
{
    char *cache = cache_of_record(), *snapshots = must_print("%s/snapshots", cache ? cache : "");
    char *start = must_print("%016" PRIx64 "-", rimf_hash(program, strlen(program)));
    DIR *entries = cache ? opendir(snapshots) : NULL;

    for (struct dirent *e; entries && (e = readdir(entries));)
        if (!strncmp(e->d_name, start, strlen(start))) {
            char *path = must_print("%s/%s", snapshots, e->d_name);
            remove_tree(path);
            free(path);
        }
    if (entries)
        closedir(entries);
    free(start);
    free(snapshots);
    free(cache);
}

const char *cached_make_folder(const char *record)
{
    char *cache = cache_of_record(), *last = cache ? strrchr(cache, '/') : NULL;
    const char *why = NULL;
    if (last) {
        *last = 0;
        why = changes_make_folders(record, cache);
    }
    free(cache);
    return why;
}

void cached_remove_all(void)
{
    char *cache = cache_of_record();
    if (cache) {
        for (size_t n = strlen(cache); n && cache[n - 1] == '/';) /* with a trailing slash, nftw follows a link */
            cache[--n] = 0;
        remove_tree(cache);
    }
    free(cache);
}

/* ---- config.cache ------------------------------------------------------------------------------ */

/* Cuts the file's text out; 0: it is not there. */
static int cut_source(char *text, const char *file)
{
    char *mark = must_print("\n" CONFIG_MARK "%s\n", file);
    char *at = strstr(text, mark), *end = at ? strstr(at + strlen(mark) - 1, "\n" CONFIG_MARK) : NULL;

    if (at)
        memmove(at + 1, end ? end + 1 : "", end ? strlen(end + 1) + 1 : 1);
    free(mark);
    return at != NULL;
}

/* Out of the first line, which lists who is configured, unless others may mean it, too. */
static void cut_name(char *text, const char *name)
{
    char *element = must_print("/%s/", name), *at = strstr(text, element), *sources = strchr(text, '\n');

    if (at && sources && at < sources && !strstr(sources, name))
        memmove(at, at + strlen(element) - 1, strlen(at + strlen(element) - 1) + 1);
    free(element);
}

#define OTHERS_MS 100 /* for which one who removes files is waited for; whoever reads the folder could hold the lock */

int cached_config_lock(const char *path)
{
    char *folder = must_print("%.*s", (int)(strrchr(path, '/') - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        asides_remove(path);
    if (fd >= 0)
        lock_within(fd, LOCK_SH, OTHERS_MS);
    free(folder);
    return fd;
}

void cached_config_forget(const char *path, const char *program)
{
    char *folder = must_print("%.*s", (int)(strrchr(path, '/') - path), path); /* apps.d */
    char *cache = must_print("%.*s/config.cache", (int)(strrchr(folder, '/') - folder), folder), *aside = NULL;
    int lock = cached_config_lock(cache);
    char *text = read_file(cache);
    int is_cut = text && cut_source(text, path), fd = -1;
    struct stat st;

    if (is_cut && !strchr(text, '[')) { /* no [app] of anybody's */
        unlink(cache);
    } else if (is_cut) {
        cut_name(text, strrchr(program, '/') + 1);
        fd = aside_open(cache, &aside);
        if (fd >= 0 && (write(fd, text, strlen(text)) != (ssize_t)strlen(text) || stat(cache, &st) ||
                        fchmod(fd, st.st_mode & 07777) || fsync(fd) ||
                        rename(aside, cache)))
            unlink(aside);
    }
    if (fd >= 0)
        close(fd);
    if (lock >= 0)
        close(lock);
    free(aside);
    free(text);
    free(cache);
    free(folder);
}
