/* SPDX-License-Identifier: MIT
 *
 * startup: what mvld adds to an exec.
 *
 *     startup ROUNDS COMMAND... -- COMMAND... [-- ...]
 *
 * Runs the commands in turn, ROUNDS times, and prints for each its times in microseconds
 * from posix_spawn to the end of the process, on a line.  NAME=VALUE words
 * in front of a command are added to its environment, as with env(1).  What the commands
 * print goes to /dev/null.
 */
#include "measure.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct command {
    char **argv, **envp;
};

/* 0 when out of memory. */
static int parse(struct command *command, char **words)
{
    size_t inherited = 0, own = 0;

    while (environ[inherited])
        inherited++;
    while (words[own] && strchr(words[own], '='))
        own++;
    command->argv = words + own;
    command->envp = calloc(inherited + own + 1, sizeof *command->envp);
    if (!command->envp)
        return 0;
    memcpy(command->envp, environ, inherited * sizeof *environ);
    memcpy(command->envp + inherited, words, own * sizeof *words);
    return 1;
}

static double run(const struct command *command, const posix_spawn_file_actions_t *silent)
{
    char **argv = command->argv;
    pid_t pid;
    int status;

    double start = now();
    int error = posix_spawn(&pid, argv[0], silent, NULL, argv, command->envp);
    if (error || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "startup: %s: %s\n", argv[0], error ? strerror(error) : "it failed");
        exit(1);
    }
    return now() - start;
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[1]) : 0;
    if (rounds < 1)
        return fprintf(stderr, "usage: startup ROUNDS COMMAND... [-- COMMAND...]\n"), 2;
    posix_spawn_file_actions_t silent;
    if (posix_spawn_file_actions_init(&silent) ||
        posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0))
        return 1;
    char ***words = calloc((size_t)argc, sizeof *words);
    struct command *commands = calloc((size_t)argc, sizeof *commands);
    double *times = calloc((size_t)argc * (size_t)rounds, sizeof *times);
    if (!words || !commands || !times)
        return 1;
    size_t n = 0;
    words[n++] = argv + 2;
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--"))
            continue;
        argv[i] = NULL;
        words[n++] = argv + i + 1;
    }
    for (size_t i = 0; i < n; i++)
        if (!parse(&commands[i], words[i]))
            return 1;
    for (int r = 0; r < rounds; r++)
        for (size_t i = 0; i < n; i++)
            times[i * (size_t)rounds + (size_t)r] = run(&commands[i], &silent);
    for (size_t i = 0; i < n * (size_t)rounds; i++)
        printf("%.1f%c", times[i], (i + 1) % (size_t)rounds ? ' ' : '\n');
    return 0;
}
