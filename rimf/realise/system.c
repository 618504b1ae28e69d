/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/system.c: what passes need of the kernel, so that no pass makes a system call; and symbols that
 * settings name.
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/stat.h> /* numbers only */

#define RANDOM_MAX 256u /* getrandom gives up to this at once, or nothing */

static int read_all(const struct rimf_sys *sys, int fd, char *to, size_t size)
{
    for (size_t done = 0; done < size;) {
        long n = SYS3(sys, SYS_read, fd, to + done, size - done);

        if (n <= 0 && n != -EINTR)
            return n ? (int)n : -EIO;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static char *read_text(struct mvld_image *image, int fd, size_t *size, int *error)
{
    struct stat st;
    char *text = NULL;

    *error = (int)SYS3(image->sys, SYS_fstat, fd, &st, 0);
    if (!*error && !S_ISREG(st.st_mode))
        *error = -EINVAL;
    if (!*error && st.st_size > (off_t)MVLD_FILE_MAX)
        *error = -EFBIG;
    if (*error)
        return NULL;
    *size = (size_t)st.st_size;
    text = rimf_heap_alloc(&image->heap, *size + 1);
    *error = text ? read_all(image->sys, fd, text, *size) : -ENOMEM;
    if (!*error)
        return text;
    rimf_heap_release(&image->heap, text);
    return NULL;
}

char *rimf_file_read(const struct mvld_context *ctx, const struct mvld_setting *setting, size_t *size)
{
    struct mvld_image *image = rimf_context_image(ctx);
    int error;
    char *text;
    long fd;

    if (!image || !setting || !size)
        return rimf_fail(image, EINVAL, "no file is named that could be read"), NULL;
    fd = sys_openat(image->sys, setting->text ? setting->text : "", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    error = sys_failed(fd) ? (int)fd : 0;
    text = error ? NULL : read_text(image, (int)fd, size, &error);
    if (!sys_failed(fd))
        sys_close(image->sys, (int)fd);
    if (!text)
        rimf_fail(image, -error, "%s: the %s %s cannot be read (error %d)", ctx->pass, setting->name,
                  setting->text, -error);
    return text;
}

int rimf_setting_symbol(const struct mvld_context *ctx, const struct mvld_setting *setting, struct mvld_symbol *out)
{
    size_t index = 0, n = rimf_context_image(ctx) && out ? ctx->n_settings : 0;

    while (index < n && &ctx->settings[index] != setting)
        index++;
    if (index == n || !mvld_setting_symbol(setting))
        return -EINVAL;
    for (size_t i = 0; i < rimf_object_count(ctx->image); i++) {
        const struct mvld_object *object = rimf_object_at(ctx->image, i);

        if (!mvld_setting_is_library(setting, object->name) ||
            rimf_symbol_find(object, mvld_setting_symbol(setting), NULL, out))
            continue;
        if (index < RIMF_SETTINGS_MATCHED)
            *ctx->matched |= 1ul << index;
        return 0;
    }
    return -ENOENT;
}

int rimf_random(const struct mvld_image *image, void *to, size_t size)
{
    if (!image || !to || size > RANDOM_MAX)
        return -EINVAL;
    return SYS3(image->sys, SYS_getrandom, to, size, 1 /* GRND_NONBLOCK */) == (long)size ? 0 : -EAGAIN;
}
