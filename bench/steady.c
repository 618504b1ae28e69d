/* SPDX-License-Identifier: MIT
 *
 * steady: what commands cost in CPU time, in the moments in which the processor is undisturbed.
 *
 *     steady WANTED SECONDS COMMAND... -- COMMAND... [-- ...]
 *
 * Runs all commands once a round, in an order drawn anew (who follows whom decides what lies in the
 * caches), until each was WANTED times undisturbed, or SECONDS are over; twice on the busiest machine.
 * NAME=VALUE words in front of a command are its whole environment.  What the commands print goes to
 * /dev/null.  Of each run a line: the command's number, user and system time in microseconds, page
 * faults, how much slower than ever the processor was at worst just before and after (1: not at all),
 * and 1 if that counts as undisturbed.
 *
 * Why: commands.h.  Commands that take 10 to 30 ms fit in between what disturbs.
 *
 * User and system time each come from samples, one a tick (4 ms), of which a short run has few; their sum
 * is exact.  A comparison uses the sum.
 */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double microseconds(struct timeval t)
{
    return (double)t.tv_sec * 1e6 + (double)t.tv_usec;
}

static void run(const struct command *command, const posix_spawn_file_actions_t *silent,
                struct rusage *usage)
{
    pid_t pid;
    int status;
    int error = posix_spawn(&pid, command->argv[0], silent, NULL, command->argv, command->envp);

    if (error || wait4(pid, &status, 0, usage) != pid || status != 0) {
        fprintf(stderr, "steady: %s: %s\n", command->argv[0], error ? strerror(error) : "it failed");
        exit(1);
    }
}

/* Until each was undisturbed `wanted` times, or the time is over; two rounds at least. */
static void measure(struct command *commands, size_t *order, size_t n, int wanted, double seconds,
                    const posix_spawn_file_actions_t *silent)
{
    double best = 1e9, started = now(), before = probe();
    uint64_t state = 88172645463325252u;
    int least = 0;

    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (unsigned rounds = 0; least < wanted && (rounds < 2 || now() - started < seconds * 1e6); rounds++) {
        shuffle(order, n, &state);
        least = wanted;
        for (size_t i = 0; i < n; i++) {
            size_t which = order[i];
            struct rusage usage;

            run(&commands[which], silent, &usage);
            double after = probe(), worst = before > after ? before : after;
            best = before < best ? before : best;
            best = after < best ? after : best;
            before = after;
            commands[which].undisturbed += worst < best * DISTURBED;
            printf("%zu %.0f %.0f %ld %.3f %d\n", which, microseconds(usage.ru_utime),
                   microseconds(usage.ru_stime), usage.ru_minflt, worst / best, worst < best * DISTURBED);
        }
        for (size_t i = 0; i < n; i++)
            least = commands[i].undisturbed < least ? commands[i].undisturbed : least;
    }
}

/* All on one CPU, so that none is moved. */
static void stay(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();

    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0 : cpu, &set);
    sched_setaffinity(0, sizeof set, &set); /* if not, then not */
}

int main(int argc, char **argv)
{
    int wanted = argc > 3 ? atoi(argv[1]) : 0;
    double seconds = argc > 3 ? atof(argv[2]) : 0;
    if (wanted < 1 || seconds <= 0)
        return fprintf(stderr, "usage: steady WANTED SECONDS COMMAND... [-- COMMAND...]\n"), 2;
    posix_spawn_file_actions_t silent;
    if (posix_spawn_file_actions_init(&silent) ||
        posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) ||
        posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", O_WRONLY, 0))
        return 1;
    size_t n = 0;
    struct command *commands = parse_all(argv + 3, &n);
    size_t *order = commands ? calloc(n, sizeof *order) : NULL;
    if (!order)
        return fprintf(stderr, "steady: no command, or no memory\n"), 1;
    stay();
    for (size_t i = 0; i < n; i++) { /* files into the page cache */
        struct rusage usage;
        run(&commands[i], &silent, &usage);
    }
    measure(commands, order, n, wanted, seconds, &silent);
    return 0;
}
