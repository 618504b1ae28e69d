/* SPDX-License-Identifier: MIT
 *
 * A profile for concat (profile.c) of any bytes: places in objects that are loaded, or a sentence
 * that names file and line.
 */
#include "passes/concat/concat.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BIAS 0x7f0000000000ul
#define ALPHA 0x1234ul

static char sentence[256], path[64];

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

/* Its last part, as of an object's own. */
const char *concat_file_name(const struct mvld_object *object)
{
    return object->name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct mvld_api api = {.alloc = alloc, .release = release,
                                        .fail = fail, .log = say, .symbol_find = symbol_find};
    static const struct mvld_object object = {.name = "program", .bias = BIAS};
    static const struct mvld_object *const objects[] = {&object, &object};
    static int fd = -1;
    struct mvld_setting settings[CONCAT_COPY + 1] = {[CONCAT_PROFILE] = {.text = path}};
    struct mvld_context context = {.api = &api, .sys = &rimf_sys_kernel, .settings = settings};
    struct concat_profile profile;

    if (fd < 0) {
        fd = memfd_create("profile", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    *sentence = 0;
    if (concat_profile_read(&context, objects, 2, &profile)) {
        if (!rimf_after(sentence, "concat: ") || !strstr(sentence, path))
            abort();
    }
    for (size_t i = 0; i < profile.n; i++)
        if (profile.hot[i].object > 1 || profile.hot[i].home - BIAS > UINT32_MAX)
            abort();
    free(profile.hot);
    return 0;
}
