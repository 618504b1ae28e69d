/* SPDX-License-Identifier: MIT
 *
 * exchange [OPTION...] OURS... -- TARGET OTHER... -- COMMAND...
 *
 * Runs a program again and again.  Before one of our system calls (trace.h), which waits, TARGET
 * is exchanged with OTHER by rename(2), as somebody could at that moment: before each call in turn,
 * for each OTHER, in each of three ways:
 *
 *     from  from that call on there is the other
 *     until before that call there was the other
 *     once  there is the other for that call alone
 *
 * An OTHER is `+FILE` for one that is as good as TARGET, `-FILE` for one that must be refused; and
 * then there is none at all: TARGET is away.
 *
 * The program says on standard output what it says without mvld, and on standard error what was
 * done to it: with TARGET from the first call to the last it says there what is `taken`, without
 * it what is `refused`.  A run is right when output and status are those without mvld, and one of
 * the two was done.  Both are met: from the first call on the other is refused, unless it is good;
 * where it was until the first call, TARGET is taken.
 *
 * A call that names neither TARGET nor what is in it, nor a folder around it, and has no
 * descriptor of these, sees no exchange: the next one that does stands for it.
 *
 *   -a      such calls, too
 *   -s      show every run
 */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

enum way { FROM, UNTIL, ONCE, WAYS };
static const char *const ways[] = {"from", "until", "once"};
enum outcome { TAKEN, REFUSED, WRONG, OUTCOMES };
static const char *const outcomes[] = {"taken", "refused", "WRONG"};

static struct program program, plain;
static struct run expected = {.fails = -1}, good = {.fails = -1}, bad = {.fails = -1};
static const char *target, *other;
static char away[4096];
static enum way way;
static long at; /* the call */
static int every, show_all;

/* ---- the exchange -------------------------------------------------------------------------- */

static void exchange(void)
{
    static int is_away;
    int none = !other[1];
    const char *from = none && is_away ? away : target;
    const char *to = !none ? other + 1 : is_away ? target : away;

    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, none ? 0 : RENAME_EXCHANGE)) {
        printf("FAILED: %s and %s are not exchanged: %s\n", from, to, strerror(errno));
        exit(1);
    }
    is_away ^= none;
}

static void before(long k, const struct seccomp_notif *asked)
{
    (void)asked;
    if (k == at || (way == ONCE && k == at + 1))
        exchange();
}

/* ---- which calls could see one -------------------------------------------------------------- */

static char sees[CALLS];

static int is_around(const char *folder, const char *path)
{
    size_t n = strlen(folder);

    return !strncmp(folder, path, n) && (!path[n] || path[n] == '/' || folder[n - 1] == '/');
}

/* The file of a descriptor, "" for none; `more` is a name in it. */
static void path_of(pid_t pid, int fd, const char *more, char *path, size_t size)
{
    char link[64], file[2048] = "";

    snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/%d/cwd" : "/proc/%d/fd/%d", (int)pid, fd);
    if (more[0] == '/' || readlink(link, file, sizeof file - 1) < 0)
        file[0] = 0;
    snprintf(path, size, "%s%s%s", file, more[0] && more[0] != '/' ? "/" : "", more);
}

static void note(long k, const struct seccomp_notif *asked)
{
    const unsigned long long *args = asked->data.args;
    char name[1024] = "", path[4096];
    unsigned long long text = 0;
    int fd = (int)args[0];

    switch (asked->data.nr) {
    case SYS_openat: case SYS_newfstatat: case SYS_statx: case SYS_readlinkat: case SYS_faccessat:
    case SYS_faccessat2: case SYS_unlinkat: case SYS_mkdirat: case SYS_renameat: case SYS_renameat2:
        text = args[1];
        break;
    case SYS_open: case SYS_stat: case SYS_lstat: case SYS_readlink: case SYS_access:
    case SYS_statfs: case SYS_getxattr:
        text = args[0];
        fd = AT_FDCWD;
        break;
    case SYS_mmap:
        fd = (int)args[4];
        break;
    default: /* the first argument is a descriptor, or none that matters */
        break;
    }
    for (size_t n = 0; text && n < sizeof name - 1; n++) {
        struct iovec here = {&name[n], 1}, there = {(char *)text + n, 1};

        if (process_vm_readv((pid_t)asked->pid, &here, 1, &there, 1, 0) != 1 || !name[n])
            break;
    }
    path_of((pid_t)asked->pid, fd, name, path, sizeof path);
    sees[k] = path[0] == '/' && (is_around(path, target) || is_around(target, path));
}

/* ---- judging ------------------------------------------------------------------------------- */

static enum outcome judge(const struct run *run)
{
    if (run->endless || run->status != expected.status || strcmp(run->out, expected.out) != 0)
        return WRONG;
    if (!strcmp(run->err, good.err))
        return TAKEN;
    return !strcmp(run->err, bad.err) ? REFUSED : WRONG;
}

static void show(const struct run *run, enum outcome outcome)
{
    const struct call *c = &program.calls[at];

    printf("%s: %s %s call %ld (%ld, at +%#lx), status %x%s\n", outcomes[outcome], other,
           ways[way], at, c->number, c->offset, run->status,
           run->endless ? ", it does not end" : "");
    if (outcome == WRONG)
        printf("--- it says\n%s--- instead of\n%s--- and of itself\n%s--- taken:\n%s"
               "--- refused:\n%s---\n", run->out, expected.out, run->err, good.err, bad.err);
    fflush(stdout);
}

/* One run; afterwards TARGET is there again. */
static enum outcome once(void)
{
    static struct run run;
    enum outcome outcome;
    int is_there;

    run = (struct run){.before = before, .fails = CALLS + 1};
    if (way == UNTIL)
        exchange();
    trace(&program, &run);
    is_there = way == UNTIL ? (long)run.n_calls > at
                            : (long)run.n_calls <= at || (way == ONCE && (long)run.n_calls > at + 1);
    if (!is_there)
        exchange();
    outcome = judge(&run);
    if (at == 0 && way != ONCE &&
        outcome != (way == FROM && other[0] == '-' ? REFUSED : TAKEN))
        outcome = WRONG;
    if (outcome == WRONG || show_all)
        show(&run, outcome);
    return outcome;
}

/* What is done without TARGET. */
static int know_bad(void)
{
    other = "-";
    exchange();
    trace(&program, &bad);
    exchange();
    if (strcmp(bad.err, good.err) != 0 && !bad.endless)
        return 1;
    printf("FAILED: without the file the same is done:\n%s", bad.err);
    return 0;
}

static int with_other(size_t counts[OUTCOMES])
{
    for (way = 0; way < WAYS; way++)
        for (at = 0; at < (long)program.n_calls; at++)
            if (every || sees[at] || at == 0 || at + 1 == (long)program.n_calls)
                counts[once()]++;
    return counts[WRONG] == 0;
}

/* ---- the command line ---------------------------------------------------------------------- */

static char **take_words(char **words, char ***into, size_t *n)
{
    *into = words;
    for (*n = 0; words[*n] && strcmp(words[*n], "--") != 0; ++*n)
        ;
    if (!words[*n])
        return words + *n;
    words[*n] = NULL;
    return words + *n + 1;
}

static void usage(void)
{
    fprintf(stderr, "usage: exchange [-as] OURS... -- TARGET OTHER... -- COMMAND...\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static char off[] = "MVLD=off", *words[64] = {off};
    size_t counts[OUTCOMES] = {0}, n_others, n_seen = 0;
    char **others;
    int option, all = 1;

    while ((option = getopt(argc, argv, "+as")) != -1) {
        switch (option) {
        case 'a': every = 1; break;
        case 's': show_all = 1; break;
        default: usage();
        }
    }
    argv = take_words(argv + optind, &program.files, &program.n_files);
    argv = take_words(argv, &others, &n_others);
    if (!argv[0] || !n_others)
        usage();
    for (size_t i = 0; argv[i] && i < 62; i++)
        words[i + 1] = argv[i];
    program.command = argv;
    plain = (struct program){.command = words, .files = program.files, .n_files = program.n_files};
    target = others[0];
    snprintf(away, sizeof away, "%s.away", target);
    trace(&plain, &expected);
    good.before = note;
    trace(&program, &good);
    if (judge(&good) != TAKEN || expected.status || !program.n_calls || program.n_calls > CALLS) {
        printf("FAILED: without an exchange: %zu calls, status %x\n%s--- plain: status %x\n%s--- %s",
               program.n_calls, good.status, good.out, expected.status, expected.out, good.err);
        return 1;
    }
    bad.fails = CALLS + 1;
    if (!know_bad())
        return 1;
    for (size_t i = 1; i <= n_others; i++) {
        other = i < n_others ? others[i] : "-";
        all &= with_other(counts);
    }
    for (size_t k = 0; k < program.n_calls; k++)
        n_seen += sees[k] != 0;
    printf("%zu calls, %zu of which see the file; %zu others: %zu taken, %zu refused, %zu wrong\n",
           program.n_calls, n_seen, n_others, counts[TAKEN], counts[REFUSED], counts[WRONG]);
    return !all;
}
