/* SPDX-License-Identifier: MIT
 *
 * rimf/base/log.h: where lines of MVLD_DEBUG go.  One line is one write(2), so
 * lines of several processes do not mix.
 */
#ifndef RIMF_LOG_H
#define RIMF_LOG_H

#include <stdarg.h>
#include <stdint.h>

struct rimf_sys;

struct rimf_log {
    const struct rimf_sys *sys;
    int fd;              /* -1: nowhere */
    uint32_t categories; /* enum mvld_log_category, or-ed */
};

int rimf_log_enabled(const struct rimf_log *, uint32_t category);
/* "     <pid>:\t<text>\n", in the manner of LD_DEBUG. */
void rimf_log(const struct rimf_log *, uint32_t category, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rimf_vlog(const struct rimf_log *, uint32_t category, const char *format, va_list);

#endif
