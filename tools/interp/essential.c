/* SPDX-License-Identifier: MIT
 *
 * interp/essential.c: which programs set-interp leaves alone, because without them a machine can neither
 * start nor be mended; and which loaders it does not make programs depend on.
 *
 * Debian says for each package how much depends on it (Policy 2.5, 3.8): "Essential", and the priorities
 * required and important.  Some more packages, and where there is no dpkg some names, stand here.
 */
#include "tools/common/tools.h"
#include "tools/interp/interp.h"

#include "rimf/base/sys.h"
#include "rimf/base/trusted.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const names[] = {
    "sh",    "bash",   "dash",   "busybox", "env", "login", "su",    "sudo",    "doas", "mount",
    "init",  "umount", "systemd", "dpkg",   "rpm", "apt",   "apt-get", "apk",   "pacman", "sshd",
    "ls",    "cp",     "mv",     "rm",      "ln",  "cat",   "chmod", "chown",   "mkdir", "sync",
    "sed",   "grep",   "tar",    "gzip",    "find", "ldconfig", "mvld", "mvld-restore",
};
static const char *const folders[] = {
    "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/lib/systemd", "/usr/lib/systemd",
};
static const char *const packages[] = {"apt", "gpgv", "libc6", "mvld", "openssh-server", "sudo", "systemd"};

#define DPKG "/var/lib/dpkg/"

static int is_in(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], word))
            return 1;
    return 0;
}

/* The name by which the machine knows the file, or NULL.  A copy of it elsewhere has none. */
static char *known_name(const char *path)
{
    struct stat file, st;
    if (stat(path, &file))
        return NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            char *name = must_print("%s/%s", folders[i], names[k]);
            if (!stat(name, &st) && st.st_dev == file.st_dev && st.st_ino == file.st_ino)
                return name;
            free(name);
        }
    return NULL;
}

/* Whether dpkg's list of the package's files has this one.  Where /bin is a link, a list may have
 * the file without /usr. */
static int owns(const char *package, const char *path)
{
    static const char *const endings[] = {".list", ":amd64.list"};
    const char *shorter = strncmp(path, "/usr/", 5) ? path : path + 4;
    char line[4096];
    int found = 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !found; i++) {
        char *name = must_print(DPKG "info/%s%s", package, endings[i]);
        FILE *list = fopen(name, "re");
        while (list && !found && fgets(line, sizeof line, list)) {
            line[strcspn(line, "\n")] = 0;
            found = !strcmp(line, path) || !strcmp(line, shorter);
        }
        if (list)
            fclose(list);
        free(name);
    }
    return found;
}

/* The value of a field of dpkg's status, when the line has this one. */
static const char *field_of(const char *line, const char *field)
{
    size_t n = strlen(field);
    return strncmp(line, field, n) || line[n] != ':' ? NULL : line + n + 1 + strspn(line + n + 1, " ");
}

/* The package of this file, when the machine needs it; or NULL. */
static char *needed_package(const char *path)
{
    FILE *status = fopen(DPKG "status", "re");
    char *line = NULL, *package = NULL, *found = NULL;
    size_t size = 0;
    int needed = 0;
    while (status && !found) {
        ssize_t n = getline(&line, &size, status);
        if (n <= 1) { /* the end of a paragraph */
            if (package && needed && owns(package, path))
                found = must_print("%s", package);
            needed = 0;
            if (n < 0)
                break;
            continue;
        }
        line[strcspn(line, "\n")] = 0;
        const char *value = field_of(line, "Package");
        if (value) {
            free(package);
            package = must_print("%s", value);
            needed = is_in(packages, sizeof packages / sizeof *packages, value);
        }
        value = field_of(line, "Priority");
        needed |= value && (!strcmp(value, "required") || !strcmp(value, "important"));
        value = field_of(line, "Essential");
        needed |= value && !strcmp(value, "yes");
    }
    if (status)
        fclose(status);
    free(line);
    free(package);
    return found;
}

const char *interp_essential(const char *path)
{
    char *name = known_name(path), *package = name ? NULL : needed_package(path);
    if (name || package)
        return must_print("the machine needs %s%s to start or to be mended (--force changes it nevertheless)",
                          name ? "" : "the package ", name ? name : package);
    return NULL;
}

/* The file system, by the file's folder: on an overlay each file has its layer's device. */
static int device_of(const char *path, dev_t *to)
{
    struct stat st;
    char *folder = must_print("%.*s/", (int)(strrchr(path, '/') - path), path);
    int failed = stat(folder, &st);
    free(folder);
    *to = st.st_dev;
    return failed;
}

const char *loader_untrusted(const char *loader, const char *program)
{
    struct stat of_loader, of_program;
    const char *why = NULL;
    size_t length = 0;
    if (stat(program, &of_program))
        return "it cannot be looked at";
    if (trusted_path(&rimf_sys_kernel, loader, of_program.st_uid, &of_loader, &why, &length))
        return must_print("others could change its loader, because of %.*s: %s (--force changes it "
                          "nevertheless)", (int)length, loader, why);
    return NULL;
}

const char *loader_objection(const char *loader, const char *program)
{
    dev_t loaders, programs, root, usr;
    if (device_of(loader, &loaders) || device_of(program, &programs) ||
        device_of("/", &root) || device_of("/usr/", &usr))
        return "the loader cannot be looked at";
    /* Those of / and /usr are there before anything is started from another one. */
    if (loaders != programs && loaders != root && loaders != usr)
        return must_print("%s lies on a file system that may not be mounted when the program is started "
                          "(--force changes it nevertheless)", loader);
    return loader_untrusted(loader, program);
}
