/* SPDX-License-Identifier: MIT
 *
 * driver [OPTION...] OURS... -- COMMAND... -- HOST_LOADER -- PLAIN COMMAND...
 *
 * Runs a program again and again, and each time lets one system call of ours (trace.h)
 * fail: the k-th, with error e, for every k and every e.
 *
 *   -l        lasting: the call and all later ones of its number fail, not it alone
 *   -1        each call fails in one way, the ways in turn
 *   -f        with more errors, and with -l from every call on, not only from the first
 *             of its number (what runs out, memory and descriptors, always does so
 *             from every call on)
 *   -a        what the program does under mvld when nothing fails is right, too
 *   -F        the program can know that there is a filter of system calls
 *   -e        lines on standard error are no fault (MVLD_DEBUG)
 *   -j N      runs at a time
 *   -k K -n N one run: call K fails with error number N, and it is shown
 *   -s        show every run
 *
 * A run is right when the program says and does what it says and does with the plain
 * command, or when it has stopped before its first constructor with status 127 and one
 * line: ours, or the host loader's ("error while loading shared libraries").
 *
 * Some of the mmap calls that we make are the host loader's own, which it makes through
 * us (loader/place/place.c).  When one of these fails, the expectation is what the plain
 * command does when the same call of the host loader fails; where faults last, when the
 * next of these does.
 */
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int errors[] = {ENOMEM, EPERM, EINTR, EMFILE, ENOSYS, EACCES, EINVAL, EAGAIN};
#define ERRORS (sizeof errors / sizeof *errors)
enum { JOBS = 64, FEW = 3 }; /* the first three errors, without -f */

static int lasting, in_turn, full, either, noisy, show_all, jobs = 1, one_error;
static long one = -1;
static struct program program, plain;
static struct run clean = {.fails = -1}, expected = {.fails = -1};

/* ---- judging ---------------------------------------------------------------------------- */

enum verdict { SAME, STOPPED, AS_HOST, WRONG, VERDICTS };
static const char *const verdicts[] = {"as plain", "stopped", "as the host loader", "WRONG"};

static int alike(const struct run *a, const struct run *b)
{
    return !a->endless && !b->endless && a->status == b->status && !strcmp(a->out, b->out) &&
           (noisy || !strcmp(a->err, b->err));
}

static int has_stopped(const struct run *run)
{
    const char *line = run->err, *end = strchr(line, '\n');

    if (!WIFEXITED(run->status) || WEXITSTATUS(run->status) != 127 || run->out[0])
        return 0;
    if (end && !strncmp(line, "ERROR: ld.so: object", 20)) { /* before: what was preloaded */
        line = end + 1;
        end = strchr(line, '\n');
    }
    return noisy || (end && !end[1] && (!strncmp(line, "mvld: ", 6) ||
                                        strstr(line, ": error while loading shared libraries: ")));
}

/* A call of the host loader's: same length, rights, flags and offset; that data is to be filled is
 * ours to say (place.c). */
static int is_that_call(const struct call *a, const struct call *b)
{
    return a->number == SYS_mmap && b->number == SYS_mmap &&
           !memcmp(&a->arguments[1], &b->arguments[1], 2 * sizeof a->arguments[1]) &&
           ((a->arguments[3] ^ b->arguments[3]) & ~(unsigned long)MAP_POPULATE) == 0 &&
           a->arguments[5] == b->arguments[5];
}

/* As when the index-th call of the program fails in the plain command. */
static int as_host_at(const struct run *run, size_t index)
{
    static struct run host;

    for (size_t k = 0; k < plain.n_calls; k++) {
        if (!is_that_call(&program.calls[index], &plain.calls[k]))
            continue;
        host.fails = (long)k;
        host.lasting = run->lasting;
        host.error = run->error;
        trace(&plain, &host);
        if (alike(run, &host))
            return 1;
    }
    return 0;
}

static int as_host(const struct run *run)
{
    size_t first = (size_t)run->fails, end = run->lasting ? program.n_calls : first + 1;

    for (size_t i = first; i < end; i++)
        if (as_host_at(run, i))
            return 1;
    return 0;
}

static enum verdict judge(const struct run *run)
{
    if (run->endless)
        return WRONG;
    if (alike(run, &expected) || (either && alike(run, &clean)))
        return SAME;
    if (has_stopped(run))
        return STOPPED;
    return run->fails >= 0 && as_host(run) ? AS_HOST : WRONG;
}

/* ---- saying -------------------------------------------------------------------------------- */

static const char *name_of(long number)
{
#define N(name) [SYS_##name] = #name
    static const char *const names[512] = {
        N(mmap), N(munmap), N(mprotect), N(mremap), N(madvise), N(brk), N(openat), N(close),
        N(read), N(write), N(pread64), N(pwrite64), N(fstat), N(newfstatat), N(readlink),
        N(readlinkat), N(faccessat), N(getdents64), N(ioctl), N(fcntl), N(prctl), N(unshare),
        N(membarrier), N(futex), N(rt_sigaction), N(rt_sigprocmask), N(getpid), N(gettid),
        N(getrandom), N(clock_gettime), N(geteuid), N(getuid), N(sched_yield), N(lseek), N(statx),
        N(access), N(tgkill), N(memfd_create), N(dup), N(uname), N(mincore), N(getppid),
    };
#undef N
    return number >= 0 && number < 512 && names[number] ? names[number] : "?";
}

static void show(const struct run *run, enum verdict verdict)
{
    const struct call *c = &program.calls[run->fails];
    const char *file = strrchr(program.files[c->file], '/');

    printf("%s: call %ld, %s(%#lx, %#lx, %#lx, %#lx, %#lx, %#lx) at %s+%#lx, %s with %s\n",
           verdicts[verdict], run->fails, name_of(c->number), c->arguments[0], c->arguments[1],
           c->arguments[2], c->arguments[3], c->arguments[4], c->arguments[5],
           file ? file + 1 : "?", c->offset,
           run->lasting ? "and all later ones fail" : "fails", strerror(run->error));
    if (run->failed != c->number)
        printf("  in this run that was a call of %s\n", name_of(run->failed));
    if (run->endless)
        printf("  it does not end\n");
    else if (WIFSIGNALED(run->status))
        printf("  ended by signal %d\n", WTERMSIG(run->status));
    else
        printf("  status %d\n", WEXITSTATUS(run->status));
    printf("--- it says\n%s--- on standard error\n%s---\n", run->out, run->err);
    fflush(stdout);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int is_first(size_t k)
{
    for (size_t i = 0; i < k; i++)
        if (program.calls[i].number == program.calls[k].number)
            return 0;
    return 1;
}

static int is_wanted(size_t k, size_t e)
{
    long number = program.calls[k].number;
    int error = errors[e];

    if (!lasting)
        return full || (in_turn ? e == k % FEW : e < FEW);
    if (error == EINTR || error == EAGAIN) /* "once more", for ever: no kernel says that */
        return 0;
    /* mremap fails for good where mappings have run out, and then some are in reserve: rimf/patch/full.c */
    return full || is_first(k) || (error == EMFILE && number == SYS_openat) ||
           (error == ENOMEM && (number == SYS_mmap || number == SYS_mprotect));
}

static void work(int number, size_t *counts)
{
    static struct run run;
    size_t n = 0;

    for (size_t k = 0; k < program.n_calls; k++) {
        for (size_t e = 0; e < ERRORS; e++) {
            enum verdict verdict;

            if (!is_wanted(k, e) || n++ % (size_t)jobs != (size_t)number)
                continue;
            run.fails = (long)k;
            run.lasting = lasting;
            run.error = errors[e];
            trace(&program, &run);
            verdict = judge(&run);
            counts[verdict]++;
            if (verdict == WRONG || show_all)
                show(&run, verdict);
        }
    }
}

static int all(void)
{
    size_t (*counts)[VERDICTS] = mmap(NULL, JOBS * sizeof *counts, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t sum[VERDICTS] = {0}, runs = 0;
    int status;

    fflush(stdout);
    for (int i = 0; i < jobs; i++) {
        if (fork() == 0) {
            work(i, counts[i]);
            exit(0);
        }
    }
    for (int i = 0; i < jobs; i++) {
        if (wait(&status) < 0 || status)
            return 1;
    }
    for (int i = 0; i < jobs; i++)
        for (int v = 0; v < VERDICTS; v++) {
            sum[v] += counts[i][v];
            runs += counts[i][v];
        }
    printf("%zu calls, %zu %s: %zu as under the plain loader, %zu stopped with a sentence, "
           "%zu as the host loader when its own call fails, %zu wrong\n", program.n_calls, runs,
           lasting ? "runs with lasting faults" : "runs", sum[SAME], sum[STOPPED], sum[AS_HOST],
           sum[WRONG]);
    return sum[WRONG] != 0 || !runs;
}

/* FILES and COMMAND from `words`, each up to "--" or the end; what follows. */
static char **take_words(char **words, char ***into, size_t *n)
{
    size_t count = 0;

    *into = words;
    while (words[count] && strcmp(words[count], "--") != 0)
        count++;
    if (n)
        *n = count;
    if (!words[count])
        return words + count;
    words[count] = NULL;
    return words + count + 1;
}

static void options(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "+l1faesFj:k:n:")) != -1) {
        switch (option) {
        case 'l': lasting = 1; break;
        case '1': in_turn = 1; break;
        case 'f': full = 1; break;
        case 'a': either = 1; break;
        case 'e': noisy = 1; break;
        case 'F': program.shown = 1; break;
        case 's': show_all = 1; break;
        case 'j': jobs = atoi(optarg); break;
        case 'k': one = atol(optarg); break;
        case 'n': one_error = atoi(optarg); break;
        default: exit(2);
        }
    }
    argv = take_words(argv + optind, &program.files, &program.n_files);
    argv = take_words(argv, &program.command, NULL);
    argv = take_words(argv, &plain.files, &plain.n_files);
    plain.command = argv;
    if (!argv[0] || !plain.n_files || !program.n_files || jobs < 1 || jobs > JOBS) {
        fprintf(stderr, "usage: driver [-l1faesF] [-j N] [-k CALL -n ERROR] OURS... -- COMMAND... -- "
                        "HOST_LOADER -- COMMAND...\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    options(argc, argv);
    trace(&plain, &expected);
    trace(&program, &clean);
    if (judge(&clean) != SAME || clean.status || expected.status || strstr(expected.out, "BAD") ||
        !clean.n_calls || clean.n_calls > CALLS) {
        printf("FAILED: without a fault: %zu calls, status %x\n%s--- on standard error\n%s"
               "--- the plain loader: status %x\n%s", clean.n_calls, clean.status, clean.out,
               clean.err, expected.status, expected.out);
        return 1;
    }
    if (one >= 0) {
        static struct run run;
        enum verdict verdict;

        run = (struct run){.fails = one, .lasting = lasting, .error = one_error};
        trace(&program, &run);
        verdict = judge(&run);
        show(&run, verdict);
        return verdict == WRONG;
    }
    return all();
}
