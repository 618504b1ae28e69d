/* SPDX-License-Identifier: MIT
 *
 * analyze/find.c: finds the files for `mvld analyze --all` and `--program`.
 */
#include "tools/analyze/analyze.h"
#include "tools/common/paths.h"
#include "tools/run/program.h"
#include "tools/common/tools.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_FOLDERS 64 /* that nftw keeps open */
#define MOST_SCRIPTS 5  /* script of a script of …: the kernel's own limit */

void paths_add(struct paths *p, const char *path)
{
    p->at = must_grow(p->at, p->n + 1, sizeof *p->at);
    p->at[p->n++] = must_print("%s", path);
}

void paths_free(struct paths *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->at[i]);
    free(p->at);
    *p = (struct paths){0};
}

static int is_linked_elf(const char *path)
{
    Elf64_Ehdr header;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, &header, sizeof header);

    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof header && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
           header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64 &&
           (header.e_type == ET_DYN || header.e_type == ET_EXEC);
}

/* ---- the system ------------------------------------------------------------------------ */

static struct paths *found; /* nftw has no cookie */

static int visit(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)at;
    if (type == FTW_D && !strcmp(path, "/usr/lib/debug"))
        return FTW_SKIP_SUBTREE; /* symbols without code */
    if (type == FTW_F && is_linked_elf(path))
        paths_add(found, path);
    return FTW_CONTINUE;
}

/* /lib, /bin and so on are either links into /usr, which are not followed, or folders of their own. */
void paths_of_system(struct paths *p)
{
    static const char *const folders[] = {
        "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64",
        "/usr/libexec", "/usr/games", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib",
        "/usr/local/libexec", "/opt"};

    found = p;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        nftw(folders[i], visit, MOST_FOLDERS, FTW_PHYS | FTW_ACTIONRETVAL);
}

/* ---- one program -------------------------------------------------------------------------- */

/* Lines of ld.so --list: "\tname => /path (0x…)" or "\t/path (0x…)"; the path is relative when
 * LD_LIBRARY_PATH or a RUNPATH is; the vDSO has none, nor, with some GLIBC_TUNABLES, the program: "\t (0x…)". */
static void take_line(struct paths *p, char *line)
{
    char *path = strstr(line, "=> "), *end = strstr(line, " (0x");

    path = path ? path + 3 : line + strspn(line, "\t");
    if (!end || end < path || !memchr(path, '/', (size_t)(end - path)))
        return;
    *end = 0;
    paths_add(p, path);
}

static int list(struct paths *p, const char *program)
{
    int ends[2], status;
    char *line = NULL;
    size_t room = 0;
    pid_t pid;

    if (pipe(ends) || (pid = fork()) < 0)
        return -1;
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(path_host_loader(), path_host_loader(), "--list", program, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    while (lines && getline(&line, &room, lines) > 0)
        take_line(p, line);
    free(line);
    if (lines)
        fclose(lines);
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

int paths_of_program(struct paths *p, const char *name)
{
    struct program program;
    char *path = program_find(name);

    for (int depth = 0; path && depth < MOST_SCRIPTS; depth++) {
        if (program_open(&program, path)) {
            complain("analyze", "%s: %s", path, strerror(errno));
            return -1;
        }
        if (program.kind != PROGRAM_SCRIPT)
            break;
        path = program_find(program.interpreter);
    }
    if (!path) {
        complain("analyze", "%s: %s", name, strerror(errno));
        return -1;
    }
    paths_add(p, path);
    if (program.kind == PROGRAM_STATIC)
        return 0;
    if (program.kind != PROGRAM_PLAIN && program.kind != PROGRAM_OURS &&
        program.kind != PROGRAM_SECURE) {
        complain("analyze", "%s: the host loader does not load it", path);
        return -1;
    }
    program_follow(&program);
    if (!list(p, program.path))
        return 0;
    complain("analyze", "%s: the host loader does not say what it would load", path);
    return -1;
}
