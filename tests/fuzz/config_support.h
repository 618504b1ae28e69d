/* SPDX-License-Identifier: MIT
 *
 * tests/fuzz/config_support.h: what the fuzzers of the configuration share: an
 * arena over malloc, so that the address sanitizer sees each block's end, and a
 * pass with an option of each type.
 */
#ifndef TESTS_FUZZ_CONFIG_SUPPORT_H
#define TESTS_FUZZ_CONFIG_SUPPORT_H

#include "loader/config/config.h"
#include "loader/manager/pipeline.h"
#include "loader/config/options.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void **blocks;
static size_t n_blocks;

void *arena_alloc(struct arena *a, size_t size)
{
    (void)a;
    blocks = realloc(blocks, (n_blocks + 1) * sizeof(*blocks));
    return blocks[n_blocks++] = calloc(1, size ? size : 1);
}

char *arena_copy(struct arena *a, const char *text, size_t length)
{
    char *to = arena_alloc(a, length + 1);

    memcpy(to, text, length);
    return to;
}

void arena_free(struct arena *a)
{
    (void)a;
    while (n_blocks)
        free(blocks[--n_blocks]);
}

struct arena_mark arena_mark(const struct arena *a)
{
    (void)a;
    return (struct arena_mark){NULL, n_blocks};
}

void arena_release(struct arena *a, struct arena_mark mark)
{
    (void)a;
    while (n_blocks > mark.used)
        free(blocks[--n_blocks]);
}

static const char *const support_words[] = {"slow", "fast", NULL};
static const struct mvld_option support_options[] = {
    {.name = "flag", .type = MVLD_OPTION_BOOL, .initial = "yes"},
    {.name = "number", .type = MVLD_OPTION_INT, .min = -5, .max = 100},
    {.name = "speed", .type = MVLD_OPTION_WORD, .words = support_words, .initial = "fast"},
    {.name = "speeds", .type = MVLD_OPTION_WORDS, .words = support_words, .initial = "fast, slow"},
    {.name = "text", .type = MVLD_OPTION_STRING},
    {.name = "set.", .type = MVLD_OPTION_PREFIX},
    {.name = NULL},
};
static const struct mvld_pass support_pass = {.name = "p", .options = support_options};

/* What a setting says must be within what the pass declares. */
static void settle(struct arena *arena, const struct config *config, const struct why *why)
{
    struct mvld_setting *s;
    size_t n;

    why->text[0] = 0;
    if (options_finish(arena, &support_pass, "p.so", config, &s, &n, why)) {
        if (!*why->text)
            abort();
        return;
    }
    if (n < 5 || s[0].number < 0 || s[0].number > 1 || s[1].number < -5 || s[1].number > 100 ||
        s[2].number < 0 || s[2].number > 1)
        abort();
    /* One of the two or both, each once: its number and one. */
    if (s[3].number != 1 && s[3].number != 2 && s[3].number != 0x12 && s[3].number != 0x21)
        abort();
    for (size_t i = 5; i < n; i++)
        if (strncmp(s[i].name, "set.", 4) != 0 || !s[i].text)
            abort();
}

#endif
