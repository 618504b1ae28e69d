/* SPDX-License-Identifier: MIT
 *
 * A profile for concat (profile.c) of any bytes: places in objects that are loaded, or a sentence
 * that names file and line.
 */
#include "passes/concat/concat.h"

#include "rimf/base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BIAS 0x7f0000000000ul
#define ALPHA 0x1234ul

static char sentence[256];

static void *alloc(struct mvld_image *image, size_t size)
{
    (void)image;
    return calloc(1, size ? size : 1);
}

static void release(struct mvld_image *image, void *memory)
{
    (void)image;
    free(memory);
}

static int fail(struct mvld_image *image, int error, const char *format, ...)
{
    va_list args;

    (void)image;
    va_start(args, format);
    rimf_vformat(sentence, sizeof sentence, format, args);
    va_end(args);
    return -error;
}

static void say(const struct mvld_image *image, uint32_t category, const char *format, ...)
{
    (void)image, (void)category, (void)format;
}

static int symbol_find(const struct mvld_object *object, const char *name, const char *version,
                       struct mvld_symbol *out)
{
    (void)version;
    *out = (struct mvld_symbol){.address = object->bias + ALPHA};
    return strcmp(name, "alpha") ? -ENOENT : 0;
}

static const uint8_t *bytes;
static size_t n_bytes;

static char *file_read(const struct mvld_context *ctx, const struct mvld_setting *setting, size_t *size)
{
    char *text = calloc(1, n_bytes + 1);

    (void)ctx, (void)setting;
    if (!text)
        abort();
    *size = n_bytes;
    return memcpy(text, bytes, n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mvld_api api = {.alloc = alloc, .release = release, .file_read = file_read,
                                        .fail = fail, .log = say, .symbol_find = symbol_find};
    static const struct mvld_object object = {.name = "/of/some/program", .bias = BIAS};
    static const struct mvld_object *const objects[] = {&object, &object};
    struct mvld_setting settings[CONCAT_COPY + 1] = {[CONCAT_PROFILE] = {.text = "a profile"}};
    struct mvld_context context = {.api = &api, .settings = settings};
    struct concat_profile profile;

    bytes = data;
    n_bytes = size;
    *sentence = 0;
    if (concat_profile_read(&context, objects, 2, &profile)) {
        if (!rimf_after(sentence, "concat: ") || !strstr(sentence, "a profile"))
            abort();
    }
    for (size_t i = 0; i < profile.n; i++)
        if (profile.hot[i].object > 1 || profile.hot[i].original - BIAS > UINT32_MAX)
            abort();
    free(profile.hot);
    return 0;
}
