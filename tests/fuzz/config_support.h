/* SPDX-License-Identifier: MIT
 *
 * tests/fuzz/config_support.h: what the fuzzers of the configuration share: an
 * heap over malloc, so that the address sanitizer sees each block's end, and a
 * pass with an option of each type.
 */
#ifndef TESTS_FUZZ_CONFIG_SUPPORT_H
#define TESTS_FUZZ_CONFIG_SUPPORT_H

#include "loader/config/config.h"
#include "loader/manager/pipeline.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void **blocks;
static size_t n_blocks;

void *rimf_heap_alloc(struct rimf_heap *heap, size_t size)
{
    (void)heap;
    blocks = realloc(blocks, (n_blocks + 1) * sizeof(*blocks));
    return blocks[n_blocks++] = calloc(1, size ? size : 1);
}

char *rimf_heap_copy_part(struct rimf_heap *heap, const char *text, size_t length)
{
    return memcpy(rimf_heap_alloc(heap, length + 1), text, length);
}

char *rimf_heap_copy(struct rimf_heap *heap, const char *text)
{
    return rimf_heap_copy_part(heap, text, strlen(text));
}

void rimf_heap_release(struct rimf_heap *heap, void *block)
{
    (void)heap;
    for (size_t i = n_blocks; i-- > 0;)
        if (blocks[i] == block) {
            blocks[i] = blocks[--n_blocks];
            free(block);
            return;
        }
}

void rimf_heap_destroy(struct rimf_heap *heap)
{
    (void)heap;
    while (n_blocks)
        free(blocks[--n_blocks]);
}

static const char *const support_words[] = {"slow", "fast", NULL};
static const struct mvld_option support_options[] = {
    {.name = "flag", .type = MVLD_OPTION_BOOL, .initial = "yes"},
    {.name = "number", .type = MVLD_OPTION_INT, .min = -5, .max = 100},
    {.name = "speed", .type = MVLD_OPTION_WORD, .words = support_words, .initial = "fast"},
    {.name = "text", .type = MVLD_OPTION_STRING},
    {.name = "set.", .type = MVLD_OPTION_PREFIX},
    {.name = NULL},
};
static const struct mvld_pass support_pass = {.name = "p", .options = support_options};

/* What a setting says must be within what the pass declares. */
static void settle(struct rimf_heap *heap, const struct config *config, const struct why *why)
{
    struct mvld_setting *s;
    size_t n;

    why->text[0] = 0;
    if (options_finish(heap, &support_pass, "p.so", config, &s, &n, why)) {
        if (!*why->text)
            abort();
        return;
    }
    if (n < 4 || s[0].number < 0 || s[0].number > 1 || s[1].number < -5 || s[1].number > 100 ||
        s[2].number < 0 || s[2].number > 1)
        abort();
    for (size_t i = 4; i < n; i++)
        if (strncmp(s[i].name, "set.", 4) != 0 || !s[i].text)
            abort();
}

#endif
