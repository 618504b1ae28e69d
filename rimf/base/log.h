/* SPDX-License-Identifier: MIT
 *
 * rimf/base/log.h: writes lines of MVLD_DEBUG.  Each line is one write(2), so lines of several
 * processes do not mix.
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
    uint64_t device, inode; /* of the file behind `fd`; inode 0: not compared */
};

/* Lines are written to `fd`, as long as it is the same file.  The program may close all descriptors
 * and open its own: no line is written into one of its files. */
void rimf_log_start(struct rimf_log *, int fd);

int rimf_log_enabled(const struct rimf_log *, uint32_t category);
/* "     <pid>:\t<text>\n", in the manner of LD_DEBUG. */
void rimf_log(const struct rimf_log *, uint32_t category, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rimf_vlog(const struct rimf_log *, uint32_t category, const char *format, va_list);

#endif
