/* SPDX-License-Identifier: MIT
 *
 * rimf/status.c: what /proc/PID/status says.
 */
#include "status.h"

#include "base.h"
#include "sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

uint64_t status_hex(const char *value)
{
    uint64_t number = 0;

    while (*value == ' ' || *value == '\t')
        value++;
    for (;; value++) {
        unsigned digit = *value >= '0' && *value <= '9'   ? (unsigned)(*value - '0')
                         : *value >= 'a' && *value <= 'f' ? (unsigned)(*value - 'a') + 10
                                                          : 16;
        if (digit == 16)
            return number;
        number = number * 16 + digit;
    }
}

const char *status_field(const char *status, const char *name)
{
    while (status && *status) {
        const char *value = rimf_after(status, name);
        if (value)
            return value;
        while (*status && *status != '\n')
            status++;
        status += *status == '\n';
    }
    return NULL;
}

int status_is_traced(const struct rimf_sys *sys)
{
    char text[512]; /* TracerPid is the eighth line, and only the first can be long (64) */
    long fd = sys_openat(sys, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0), n;
    const char *tracer;

    if (sys_failed(fd))
        return (int)fd;
    n = sys_read(sys, (int)fd, text, sizeof text - 1);
    sys_close(sys, (int)fd);
    if (n < 0)
        return (int)n;
    text[n] = '\0';
    tracer = status_field(text, "TracerPid:");
    return !tracer ? -EIO : status_hex(tracer) != 0;
}
