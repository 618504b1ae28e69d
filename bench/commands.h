/* SPDX-License-Identifier: MIT
 *
 * bench/commands.h: commands as words, an order drawn anew, and whether a processor is disturbed.
 *
 * What shares a core with a virtual CPU, mostly another tenant's machine, makes it slower by
 * anything up to a factor of two, for tenths of a second, and no clock of the guest shows it: that
 * is neither stolen time nor waiting.  A loop of known work shows it, if it wants all of the core's
 * width (probe).
 */
#ifndef BENCH_COMMANDS_H
#define BENCH_COMMANDS_H

#include "measure.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DISTURBED 1.04 /* what share of a core a neighbour takes who matters */

struct command {
    char **argv, **envp;
    int undisturbed;
};

/* xorshift64; the state is never 0. */
static inline uint64_t drawn(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline void shuffle(size_t *order, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = drawn(state) % i, kept = order[j];
        order[j] = order[i - 1];
        order[i - 1] = kept;
    }
}

/* NAME=VALUE words in front of a command are its whole environment.  0: out of memory, or no command. */
static inline int parse(struct command *command, char **words)
{
    size_t own = 0;

    while (words[own] && strchr(words[own], '='))
        own++;
    command->argv = words + own;
    command->envp = calloc(own + 1, sizeof *command->envp);
    if (command->envp)
        memcpy(command->envp, words, own * sizeof *words);
    return command->envp && *command->argv;
}

/* The commands that "--" stands between, one more NULL than commands behind them; NULL: as parse. */
static inline struct command *parse_all(char **words, size_t *n)
{
    size_t most = 1;

    for (char **word = words; *word; word++)
        most += !strcmp(*word, "--");
    struct command *commands = calloc(most, sizeof *commands);
    for (*n = 0; commands && *n < most; ++*n) {
        char **end = words;
        while (*end && strcmp(*end, "--"))
            end++;
        *end = NULL;
        if (!parse(&commands[*n], words))
            return NULL;
        words = end + 1;
    }
    return commands;
}

/* Microseconds of a fifth of a millisecond's work that keeps the core's adders busy. */
static inline double probe(void)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
    double start = now();

    for (int i = 0; i < 400000; i++) {
        a += 3, b ^= a, c += 5, d ^= c, e += 7, f ^= e;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    }
    return now() - start;
}

#endif
