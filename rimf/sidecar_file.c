/* SPDX-License-Identifier: MIT
 *
 * rimf/sidecar_file.c: where sidecars lie, and which files are taken.
 *
 * A sidecar says where code may be changed, so whoever can write it can steer the
 * program.  A file is taken when root owns it, or the user whose place it is, when
 * nobody else may write it, and when it is a regular file under its own name.  Writers
 * rename whole files into place, so what is mapped does not change; who could cut it
 * short is who could change it.
 */
#include "sidecar.h"

#include "base.h"
#include "sys.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */
#include <sys/stat.h> /* struct stat, as the kernel has it */

#define PATH_SIZE 1024u

size_t sidecar_user_folder(char *to, size_t size, const char *xdg, const char *home)
{
    size_t n;

    /* As the XDG specification has it, a relative path counts as none. */
    if (xdg && *xdg == '/')
        n = rimf_format(to, size, "%s/mvld/analysis", xdg);
    else if (home && *home == '/')
        n = rimf_format(to, size, "%s/.cache/mvld/analysis", home);
    else
        return 0;
    return n < size ? n : 0;
}

size_t sidecar_path(char *to, size_t size, const char *folder, const void *build_id,
                    size_t build_id_size)
{
    const uint8_t *id = build_id;
    size_t n;

    if (!build_id_size || build_id_size > SIDECAR_BUILD_ID_MAX)
        return 0;
    n = rimf_format(to, size, "%s/%02x/", folder, id[0]);
    for (size_t i = 1; i < build_id_size && n < size; i++)
        n += rimf_format(to + n, size - n, "%02x", id[i]);
    if (n < size)
        n += rimf_format(to + n, size - n, ".mvld");
    return n < size ? n : 0;
}

static int check_file(const struct rimf_sys *sys, int fd, uint32_t user, size_t *size,
                      const char **why)
{
    struct stat st;
    long failed = SYS3(sys, SYS_fstat, fd, &st, 0);

    if (failed) {
        *why = "it cannot be looked at";
        return (int)failed;
    }
    if (!S_ISREG(st.st_mode)) {
        *why = "it is no regular file";
        return -EINVAL;
    }
    if ((st.st_uid != 0 && st.st_uid != user) || (st.st_mode & 022)) {
        *why = "others than root and the user own it or may write it";
        return -EPERM;
    }
    if (st.st_size < (long)sizeof(struct sidecar_header) || (size_t)st.st_size > SIDECAR_SIZE_MAX) {
        *why = "it is too small or too large for a sidecar";
        return -EINVAL;
    }
    *size = (size_t)st.st_size;
    return 0;
}

int sidecar_map(struct sidecar_file *file, const struct rimf_sys *sys, const char *path,
                uint32_t user, uint32_t wanted, const char **why)
{
    /* O_NONBLOCK: a FIFO must not hold up the program. */
    long fd = sys_openat(sys, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    long map;
    int error;

    memset(file, 0, sizeof *file);
    if (sys_failed(fd)) {
        *why = fd == -ENOENT ? "there is none" : "it cannot be opened";
        return (int)fd;
    }
    error = check_file(sys, (int)fd, user, &file->size, why);
    map = error ? error : sys_mmap(sys, 0, file->size, PROT_READ, MAP_PRIVATE, (int)fd, 0);
    sys_close(sys, (int)fd);
    if (error)
        return error;
    if (sys_failed(map)) {
        *why = "it cannot be mapped";
        return (int)map;
    }
    file->map = (void *)map;
    error = sidecar_open(&file->view, file->map, file->size, wanted, why);
    if (error)
        sidecar_unmap(file, sys);
    return error;
}

void sidecar_unmap(struct sidecar_file *file, const struct rimf_sys *sys)
{
    if (file->map)
        sys_munmap(sys, (uintptr_t)file->map, file->size);
    memset(file, 0, sizeof *file);
}

int sidecar_find(struct sidecar_file *file, const struct rimf_sys *sys,
                 const struct sidecar_place *places, size_t n_places, const void *build_id,
                 size_t build_id_size, uint32_t wanted, const char **why)
{
    char path[PATH_SIZE];
    int first = -ENOENT;

    memset(file, 0, sizeof *file);
    *why = "there is none";
    for (size_t i = 0; i < n_places; i++) {
        const char *wrong = NULL;
        int error;

        if (!sidecar_path(path, sizeof path, places[i].folder, build_id, build_id_size))
            continue;
        error = sidecar_map(file, sys, path, places[i].user, wanted, &wrong);
        if (!error && !sidecar_is_of(&file->view, build_id, build_id_size)) {
            sidecar_unmap(file, sys);
            wrong = "it is of an object with another build-id";
            error = -EINVAL;
        }
        if (!error)
            return 0;
        if (first == -ENOENT && error != -ENOENT) { /* of several, the first that is wrong */
            first = error;
            *why = wrong;
        }
    }
    return first;
}
