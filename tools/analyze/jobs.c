/* SPDX-License-Identifier: MIT
 *
 * analyze/jobs.c: analyses files, each in its own process.
 *
 * One process for each file limits time and memory, whatever the file contains, and a file that is
 * truncated meanwhile ends only its own process.  All processes share a pipe for results, which are
 * shorter than what a pipe takes in one piece.
 */
#include "tools/analyze/analyze.h"
#include "tools/common/tools.h"

#include "rimf/analyze/analyser.h"
#include "rimf/base/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_JOBS 256u

_Static_assert(sizeof(struct result) <= PIPE_BUF, "a result is written in one piece");

/* ---- in the process of one file ------------------------------------------------------- */

/* Far above the needs of real files: 80 MB of code take a second, and twice their size. */
static void limit(uint64_t size)
{
    struct rlimit time = {.rlim_cur = 20 + size / 1000000}, memory;

    time.rlim_max = time.rlim_cur + 1;
    memory.rlim_cur = memory.rlim_max = (512ul << 20) + 24 * size;
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

/* Whether there is an analysis of this very file by this version of the analyser. */
static int is_up_to_date(const struct object *o, const char *folder)
{
    struct analysis_place place = {.folder = folder, .user = geteuid()};
    struct analysis_file file;
    const char *why;
    int same;

    if (analysis_find(&file, &rimf_sys_kernel, &place, 1, o->build_id, o->build_id_size,
                     ANALYSIS_WANT_WHOLE, &why))
        return 0;
    same = file.view.header->analyser == ANALYSER_VERSION &&
           !file_id_is_none(&o->identity) && file_id_same(&file.view.header->identity, &o->identity);
    analysis_unmap(&file, &rimf_sys_kernel);
    return same;
}

/* A build that follows keeps it: the cache's bound takes what was used longest ago (tools/cache/bound.c). */
static void mark_used(const struct object *o, const char *folder)
{
    static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}}; /* of access, of writing */
    char path[PATH_MAX];

    if (analysis_path(path, sizeof path, folder, o->build_id, o->build_id_size))
        utimensat(AT_FDCWD, path, now, AT_SYMLINK_NOFOLLOW);
}

static void count(const struct analyser *a, struct result *r)
{
    const struct unit *units = units_of(a);

    for (size_t i = 0; i < a->units.n; i++) {
        r->units[units[i].reason]++;
        r->bytes[units[i].reason] += units[i].end - units[i].start;
    }
    for (size_t i = 0; i < a->n_code; i++)
        r->code += a->code[i].end - a->code[i].start;
    r->calls = a->calls.n;
    r->references = a->references.n;
    r->jump_tables = a->jump_tables.n;
    r->entered = count_entered(a);
    r->flags = a->object.flags;
}

static void analyse(const struct jobs *jobs, const char *path, struct result *r)
{
    struct analyser a = {0};
    int failed = object_open(&a.object, path);
    char *real = realpath(path, NULL);

    a.object.path = real;
    r->outcome = OUTCOME_REFUSED;
    if (!failed && !a.object.build_id_size)
        failed = object_fail(&a.object, "it has no build-id");
    if (!failed && !jobs->again && is_up_to_date(&a.object, jobs->folder)) {
        r->outcome = OUTCOME_UP_TO_DATE;
        mark_used(&a.object, jobs->folder);
    } else if (!failed) {
        limit(a.object.size);
        failed = analyser_finish(&a);
        if (!failed) {
            r->outcome = OUTCOME_WRITTEN;
            count(&a, r);
            failed = analysis_write(&a, jobs->folder);
            if (failed)
                r->outcome = OUTCOME_FAILED;
        }
    }
    if (failed)
        memcpy(r->why, a.object.error, sizeof r->why);
    analyser_free(&a);
    free(real);
}

/* ---- all of them -------------------------------------------------------------------------- */

struct running {
    pid_t pid;
    uint32_t index;
};

static int start(const struct jobs *jobs, struct running *slot, uint32_t index, const int *ends)
{
    fflush(NULL);
    slot->index = index;
    slot->pid = fork();
    if (slot->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed `mvld analyze' writes nothing more */
        struct result result = {.index = index};

        close(ends[0]);
        analyse(jobs, jobs->paths->at[index], &result);
        _exit(write(ends[1], &result, sizeof result) == (ssize_t)sizeof result ? 0 : 1);
    }
    return slot->pid < 0 ? -1 : 0;
}

/* A process ended: its result is in the pipe, unless it could not write one.  Results of others may
 * precede it, and are handled as they come. */
static void finish(const struct jobs *jobs, const struct running *slot, int status, int end)
{
    struct result result = {.index = slot->index, .outcome = OUTCOME_FAILED};

    if (status == 0) {
        if (read(end, &result, sizeof result) != (ssize_t)sizeof result)
            status = 1;
    }
    if (status != 0)
        snprintf(result.why, sizeof result.why, "%s",
                 WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU
                     ? "it takes more time than any file of its size should"
                     : "its analysis crashed");
    jobs->done(jobs->cookie, &result);
}

static struct running *slot_of(struct running *slots, unsigned n, pid_t pid)
{
    for (unsigned i = 0; i < n; i++)
        if (slots[i].pid == pid)
            return &slots[i];
    return NULL;
}

void jobs_run(const struct jobs *jobs)
{
    struct running slots[MOST_JOBS] = {{0}};
    unsigned at_once = jobs->at_once < MOST_JOBS ? jobs->at_once : MOST_JOBS, n = 0;
    int ends[2], status;
    size_t next = 0;

    if (pipe(ends)) {
        complain("analyze", "there is no pipe");
        exit(TOOL_FAILED);
    }
    while (next < jobs->paths->n || n) {
        struct running *slot;
        pid_t pid;

        while (n < at_once && next < jobs->paths->n &&
               !start(jobs, slot_of(slots, at_once, 0), (uint32_t)next, ends)) {
            next++;
            n++;
        }
        pid = n ? waitpid(-1, &status, 0) : -1;
        slot = pid > 0 ? slot_of(slots, at_once, pid) : NULL;
        if (pid < 0) {
            complain("analyze", "no process can be started");
            exit(TOOL_FAILED);
        }
        if (!slot)
            continue;
        finish(jobs, slot, status, ends[0]);
        slot->pid = 0;
        n--;
    }
    close(ends[0]);
    close(ends[1]);
}
