/* SPDX-License-Identifier: MIT
 *
 * enable/unit.c: a drop-in for one systemd unit: its processes find our loader at the path of the
 * machine's ld.so, and ours finds the machine's at another path (loader/host/host.c).  systemd
 * mounts both in the unit's own mount namespace, so no file is changed, and nothing else is
 * affected.
 *
 * The second mount point is on a tmpfs of the unit.  A package's file would not do: a mount is
 * removed, in all namespaces, when the file under it is replaced or removed, and programs that a
 * running unit executes would find no ld.so after an upgrade of mvld.
 *
 * A mount without a source is skipped ("-"): without mvld the unit starts plainly.
 *
 * NoExecPaths= lets no code be mapped from folders that it names, and redis-server.service names /.
 * What BindReadOnlyPaths= mounts is exempt from it, so the snapshots are mounted over themselves.
 */
#include "rimf/store/manifest.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define UNITS "/etc/systemd/system"
#define OWN_FOLDER "/run/mvld" /* of MVLD_HOST_LOADER_MOUNTED */

static const char *const folders[] = {
    UNITS, "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system",
};

/* In this order: the second mount hides the first one's source. */
struct bind {
    const char *source, *place;
};

static void list_binds(struct bind binds[2])
{
    binds[0] = (struct bind){MVLD_HOST_LOADER, MVLD_HOST_LOADER_MOUNTED};
    binds[1] = (struct bind){path_loader(), MVLD_HOST_LOADER};
}

/* A template, NAME@.service, is a unit for each of its instances. */
static int is_unit(const char *name)
{
    const char *at = strchr(name, '@');
    int found = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !found; i++) {
        char *path = must_print("%s/%s", folders[i], name);
        char *template = must_print("%s/%.*s.service", folders[i], at ? (int)(at - name) + 1 : 0, name);
        found = !access(path, F_OK) || (at && !access(template, F_OK));
        free(template);
        free(path);
    }
    return found;
}

char *unit_place(const struct target *t, const char **why)
{
    const char *unit = t->unit ? t->unit : "", *dot = strrchr(unit, '.');

    *why = NULL;
    if (!t->unit)
        *why = "say which unit starts it: --unit NAME.service";
    else if (geteuid())
        *why = "only root changes units";
    else if (strchr(unit, '/') || !dot || strcmp(dot, ".service"))
        *why = must_print("`%s' is not the name of a service, such as nginx.service", unit);
    else if (!is_unit(unit))
        *why = must_print("there is no unit %s", unit);
    return *why ? NULL : must_print(UNITS "/%s.d/mvld-%s.conf", unit, strrchr(t->program, '/') + 1);
}

char *unit_of(const char *place)
{
    const char *name = place + strlen(UNITS "/"), *end = strrchr(place, '/') - strlen(".d");
    return must_print("%.*s", (int)(end - name), name);
}

char *unit_text(const struct target *t, size_t *size)
{
    struct bind binds[2];
    list_binds(binds);
    char *text = must_print("# made by `mvld enable' for %s; `mvld disable' removes it\n"
                            "[Service]\n"
                            "TemporaryFileSystem=" OWN_FOLDER ":ro,mode=755\n"
                            "BindReadOnlyPaths=-%s:%s\n"
                            "BindReadOnlyPaths=-%s:%s\n"
                            "BindReadOnlyPaths=-" MANIFEST_SYSTEM_FOLDER "\n",
                            t->program, binds[0].source, binds[0].place, binds[1].source, binds[1].place);
    *size = strlen(text);
    return text;
}

int unit_enter(void)
{
    struct bind binds[2];
    list_binds(binds);
    if (!access(MVLD_HOST_LOADER_MOUNTED, F_OK)) /* we run in a unit's mounts ourselves */
        return 0;
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        (mkdir(OWN_FOLDER, 0755) && errno != EEXIST) || mount("mvld", OWN_FOLDER, "tmpfs", 0, "mode=755"))
        return -1;
    int fd = open(MVLD_HOST_LOADER_MOUNTED, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    if (fd < 0 || close(fd))
        return -1;
    for (size_t i = 0; i < 2; i++)
        if (mount(binds[i].source, binds[i].place, NULL, MS_BIND, NULL))
            return -1;
    return 0;
}

static int systemd_runs(void) { return !access("/run/systemd/system", F_OK); }

pid_t unit_process(const char *place)
{
    char *unit = unit_of(place), *word = shell_word(unit);
    char *command = must_print("systemctl show -p MainPID --value %s 2>/dev/null", word);
    FILE *said = systemd_runs() ? popen(command, "re") : NULL;
    int pid = 0;

    if (said) {
        if (fscanf(said, "%d", &pid) != 1 || pid < 0)
            pid = 0;
        pclose(said);
    }
    free(command);
    free(word);
    free(unit);
    return pid;
}

void unit_reload(void)
{
    char *const argv[] = {"systemctl", "daemon-reload", NULL};
    int status = -1;
    pid_t pid;
    if (!systemd_runs())
        return;
    if (!posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ))
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    if (status)
        fputs("mvld: `systemctl daemon-reload' failed: systemd does not know the new drop-ins yet\n", stderr);
}
