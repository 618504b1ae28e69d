/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/file.c: folders of analyses, and which files are trusted.
 *
 * cache.h has the rules.  Writers rename complete files into place, so a mapped file does not change; only
 * those who could change it could truncate it.
 */
#include "rimf/analysis/analysis.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

#define PATH_SIZE 1024u

size_t analysis_path(char *to, size_t size, const char *folder, const void *build_id,
                    size_t build_id_size)
{
    const uint8_t *id = build_id;
    size_t n;

    if (!build_id_size || build_id_size > ANALYSIS_BUILD_ID_MAX)
        return 0;
    n = rimf_format(to, size, "%s/%02x/", folder, id[0]);
    for (size_t i = 1; i < build_id_size && n < size; i++)
        n += rimf_format(to + n, size - n, "%02x", id[i]);
    if (n < size)
        n += rimf_format(to + n, size - n, ".mvld");
    return n < size ? n : 0;
}

int analysis_map(struct analysis_file *file, const struct rimf_sys *sys, const char *path,
                uint32_t user, uint32_t wanted, const char **why)
{
    int error;

    memset(file, 0, sizeof *file);
    error = cache_map(sys, AT_FDCWD, path, user, sizeof(struct analysis_header), ANALYSIS_SIZE_MAX,
                      &file->map, &file->size, why);
    if (!error)
        error = analysis_open(&file->view, file->map, file->size, wanted, why);
    if (error)
        analysis_unmap(file, sys);
    return error;
}

void analysis_unmap(struct analysis_file *file, const struct rimf_sys *sys)
{
    if (file->map)
        sys_munmap(sys, (uintptr_t)file->map, file->size);
    memset(file, 0, sizeof *file);
}

/* Maps the analysis of that folder if it is of this object. */
static int map_of(struct analysis_file *file, const struct rimf_sys *sys,
                  const struct analysis_place *place, const void *build_id, size_t build_id_size,
                  uint32_t wanted, const char **why)
{
    char path[PATH_SIZE];
    int error;

    if (!analysis_path(path, sizeof path, place->folder, build_id, build_id_size))
        return -ENOENT;
    error = analysis_map(file, sys, path, place->user, wanted, why);
    if (error || analysis_is_of(&file->view, build_id, build_id_size))
        return error;
    analysis_unmap(file, sys);
    *why = "it is of an object with another build-id";
    return -EINVAL;
}

int analysis_find(struct analysis_file *file, const struct rimf_sys *sys,
                 const struct analysis_place *places, size_t n_places, const void *build_id,
                 size_t build_id_size, uint32_t wanted, const char **why)
{
    int first = -ENOENT;

    memset(file, 0, sizeof *file);
    *why = "there is none";
    for (size_t i = 0; i < n_places; i++) {
        const char *wrong = NULL;
        struct analysis_file next;
        int error = map_of(&next, sys, &places[i], build_id, build_id_size, wanted, &wrong);

        if (error && first == -ENOENT && error != -ENOENT) { /* of several errors */
            first = error;
            *why = wrong;
        }
        if (error)
            continue;
        if (file->map && file->view.header->analyser >= next.view.header->analyser) {
            analysis_unmap(&next, sys);
            continue;
        }
        analysis_unmap(file, sys);
        *file = next;
        if (file->view.header->analyser >= ANALYSER_VERSION)
            break;
    }
    return file->map ? 0 : first;
}
