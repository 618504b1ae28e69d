/* SPDX-License-Identifier: MIT
 *
 * try/prepare.c: analyses, snapshots and a mount namespace for `mvld try`.
 */
#include "tools/try/prepare.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"
#include "tools/interp/interp.h"
#include "tools/run/itself.h"
#include "tools/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_WAYS = 6 };

/* This environment without mvld's variables, and with the scratch folder's cache; `tunables` or
 * NULL. */
static char **environment_with(const char *scratch, const char *tunables)
{
    const char *folders = path_pass_folders();
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **list = must_alloc(n + 4, sizeof *list);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "MVLD", 4) && strncmp(environ[i], "XDG_CACHE_HOME=", 15))
            list[k++] = environ[i];
    list[k++] = must_print("XDG_CACHE_HOME=%s", scratch);
    if (tunables)
        list[k++] = must_print("MVLD_TUNABLES=%s", tunables);
    if (tunables && folders)
        list[k++] = must_print("MVLD_PASS_PATH=%s", folders);
    return list;
}

static const struct try_place here = {-1, -1, -1};

/* Runs a command there, silently; its standard error goes to `said`, if that is not -1.  Returns 0 if it exits with 0. */
static int run_in(char **argv, char **environment, const struct try_place *place, int said)
{
    int status = -1;
    pid_t pid = fork();
    if (!pid) {
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(fd == STDERR_FILENO && said >= 0 ? said : null, fd);
        if (!try_enter(place))
            execve(argv[0], argv, environment);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static int run_silently(char **argv, char **environment, const struct try_place *place)
{
    return run_in(argv, environment, place, -1);
}

/* The words, then `rest`. */
static char **command_of(char **rest, const char *const *words)
{
    size_t n = 0, m = 0;
    while (words[n])
        n++;
    while (rest[m])
        m++;
    char **argv = must_alloc(n + m + 1, sizeof *argv);
    memcpy(argv, words, n * sizeof *argv);
    memcpy(argv + n, rest, m * sizeof *argv);
    return argv;
}

/* A copy of the program with our interpreter, or NULL with why. */
static char *copy_with_interp(const char *path, const char *scratch, const char **why)
{
    char *copy = must_print("%s/program", scratch);
    struct bytes now = {0};
    struct elf_file f;
    int fd = -1;
    *why = NULL;
    if (elf_file_open(&f, path) || interp_edit(&f, path_loader(), &now))
        *why = must_print("%s", f.error);
    else if ((fd = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755)) < 0 ||
             write(fd, now.at, now.size) != (ssize_t)now.size)
        *why = must_print("%s: %s", copy, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(now.at);
    elf_file_close(&f);
    return copy;
}

static int open_of(pid_t pid, const char *what)
{
    char *name = must_print("/proc/%d/%s", (int)pid, what);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    free(name);
    return fd;
}

/* A mount namespace with `copy` mounted over `path`; or `here`. */
static struct try_place place_with(const char *copy, const char *path)
{
    struct try_place place = here;
    int ready[2];
    char byte = 0;
    if (pipe2(ready, O_CLOEXEC))
        return here;
    pid_t pid = fork();
    if (!pid) {
        if (!unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
            !mount(copy, path, NULL, MS_BIND, NULL))
            byte = 1;
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) == 1 && byte)
        place = (struct try_place){open_of(pid, "ns/mnt"), open_of(pid, "root"), open_of(pid, "cwd")};
    close(ready[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return place.root < 0 || place.folder < 0 ? here : place;
}

static void add_way(struct try_runs *r, const char *name, const char *remedy, char **argv, char **environment,
                    const struct try_place *place)
{
    r->ways[r->n_ways++] = (struct try_way){
        .name = name, .remedy = remedy, .argv = argv, .environment = environment, .place = *place};
}

/* Why a start there takes no snapshot: what `mvld build' says; or NULL. */
static const char *snapshot_trouble(char *mvld, char *program, char **environment, const struct try_place *place)
{
    char *const rest[] = {program, NULL};
    char text[512] = "", *said = text;
    if (!run_silently(command_of((char **)rest, (const char *const[]){mvld, "build", "--check", "--", NULL}), environment, place))
        return NULL;
    int fd = memfd_create("said", MFD_CLOEXEC);
    run_in(command_of((char **)rest, (const char *const[]){mvld, "build", "--", NULL}), environment, place, fd);
    if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0)
        said = "no start takes a snapshot";
    close(fd);
    said += strncmp(said, "mvld: ", 6) ? 0 : 6;
    return must_print("%.*s", (int)strcspn(said, "\n"), said);
}

/* Adds a method under mvld, `run`, and makes its snapshot, with the files that the program loads
 * while it runs. */
static void add_snapshot(struct try_runs *r, const char *name, const char *remedy, const char *passes, char **argv,
                         char **run, const char *scratch, const struct try_place *place)
{
    char *mvld = path_mvld();
    char **environment = environment_with(scratch, must_print("app.passes=%s", passes));
    char **build = command_of(argv, (const char *const[]){mvld, "build", "--run", "--", NULL});
    add_way(r, name, remedy, run, environment, place);
    run_silently(build, environment, place);
    r->ways[r->n_ways - 1].wrong = snapshot_trouble(mvld, argv[0], environment, place);
}

/* A second cache with the same analyses: snapshots of one program in two files would replace each
 * other. */
static char *second_cache(const char *scratch)
{
    char *cache = must_print("%s/second", scratch), *analyses = must_print("%s/mvld", scratch);
    char *const copy[] = {"/bin/cp", "-r", analyses, cache, NULL};
    if (!mkdir(cache, 0700))
        run_silently((char **)copy, environ, &here);
    free(analyses);
    return cache;
}

/* The command as the wrapper that `mvld enable' would make executes it, or NULL: it would make none.  The
 * wrapper itself takes no time that could be measured. */
static char **wrapped(char **argv, const char *real)
{
    const char *why;
    char *place = ways->place(&(struct target){.program = (char *)real, .called = argv[0]}, &why);
    char **run = place ? command_of(argv, (const char *const[]){path_starter(), NULL}) : NULL;
    free(place);
    return run;
}

/* The executed file: for a script its interpreter. */
static const char *resolve_program(char **argv, struct program *p)
{
    char *path = program_find(argv[0]);
    const char *why = NULL;
    if (!path || program_open(p, path) || access(path, X_OK))
        return strerror(errno);
    argv[0] = path;
    for (int depth = 0; p->kind == PROGRAM_SCRIPT && depth < 4; depth++) {
        char *interpreter = must_print("%s", p->interpreter), *reader = program_of_script(p);
        if (reader && strcmp(reader, interpreter)) /* env(1) starts it, which gains nothing itself */
            return must_print("it is a script: mvld try %s %s", reader, path);
        if (program_open(p, interpreter))
            return strerror(errno);
    }
    if (p->kind == PROGRAM_OURS)
        why = "it starts under mvld already; `mvld doctor' and MVLD_DEBUG=files say what is done";
    else if (p->kind == PROGRAM_UNKNOWN)
        why = "it is neither an ELF file nor a script";
    else
        why = program_objection(p);
    return why;
}

const char *prepare_ways(struct try_runs *r, const char *scratch, char **argv)
{
    struct program p;
    const char *why = resolve_program(argv, &p), *damage = loader_damage(path_loader());
    if (why || damage)
        return why ? why : must_print("%s: %s", path_loader(), damage);
    char *real = realpath(p.path, NULL), *analyses = must_print("%s/mvld/analysis", scratch);
    char *mvld = path_mvld();
    char **plain = environment_with(scratch, NULL);
    char *const analyze[] = {mvld, "analyze", "--output", analyses, "--program", real, NULL};

    r->ways = must_alloc(MOST_WAYS, sizeof *r->ways);
    add_way(r, "plain", NULL, argv, plain, &here);
    add_way(r, "plain, beside itself", NULL, argv, plain, &here);
    why = try_plainly(r); /* a snapshot is made by a run to the end, too */
    if (why)
        return why;
    run_silently((char **)analyze, plain, &here);
    int refused = interp_essential(real) != NULL;
    char *word = shell_word(p.path);
    char **wrapper = !refused && !strcmp(p.path, argv[0]) ? wrapped(argv, real) : NULL;
    if (wrapper)
        add_snapshot(r, "wrapper, direct-calls", must_print("mvld enable %s", word), "direct-calls", argv, wrapper,
                     second_cache(scratch), &here);
    const char *by = wrapper ? "--by set-interp " : "";
    struct try_place place = here;
    if (!geteuid() && !refused) {
        char *copy = copy_with_interp(real, scratch, &why);
        place = why ? here : place_with(copy, real);
        free(copy);
    }
    if (place.mounts >= 0) {
        add_snapshot(r, "set-interp, direct-calls", must_print("mvld enable %s%s", by, word), "direct-calls", argv, argv,
                     scratch, &place);
        add_snapshot(r, "set-interp, direct-calls, concat",
                     must_print("mvld enable %s--pass direct-calls --pass concat %s", by, word),
                     "direct-calls, concat", argv, argv, scratch, &place);
    }
    if (!wrapper)
        add_snapshot(r, "mvld run, direct-calls", must_print("mvld run --pass direct-calls -- %s", argv[0]),
                     "direct-calls", argv, command_of(argv, (const char *const[]){mvld, "run", "--", NULL}),
                     second_cache(scratch), &here);
    free(word);
    free(analyses);
    free(real);
    return NULL;
}
