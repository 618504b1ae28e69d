/* SPDX-License-Identifier: MIT */
#include "loader/config/why.h"
#include "rimf/base/base.h"

int refuse(const struct why *why, int err, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    rimf_vformat(why->text, why->size, format, arguments);
    va_end(arguments);
    return -err;
}

int refuse_at(const struct why *why, int err, const char *file, unsigned line, const char *format,
              ...)
{
    va_list arguments;
    size_t used;

    if (line)
        used = rimf_format(why->text, why->size, "%s:%u: ", file, line);
    else
        used = rimf_format(why->text, why->size, "%s: ", file);
    if (used < why->size) {
        va_start(arguments, format);
        rimf_vformat(why->text + used, why->size - used, format, arguments);
        va_end(arguments);
    }
    return -err;
}
