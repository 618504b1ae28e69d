/* SPDX-License-Identifier: MIT
 *
 * Pages of a file that somebody wrote in this process are told from those that nobody did.  A
 * failure means that a probe in code is copied with the code, or that all of it is read and hashed
 * at each start.
 */
#include "rimf/base/status.h"

#include "../../check.h"
#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 300u /* more than are asked for at once */

static int refuse_open, cut_read;

static long fake(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e, long f)
{
    (void)sys;
    if (nr == SYS_openat && refuse_open)
        return -EACCES;
    if (nr == SYS_pread64 && cut_read)
        c = cut_read == 1 ? 0 : 24; /* ended; or less than asked for, again and again */
    return rimf_syscall(nr, a, b, c, d, e, f);
}

static const struct rimf_sys sys = {fake};
static char *text;

static int unwritten(size_t first, size_t n)
{
    return status_is_unwritten(&sys, (uintptr_t)text + first * RIMF_PAGE + 5, n * RIMF_PAGE - 10);
}

/* As debuggers do, whatever the protection. */
static void poke(size_t page)
{
    int fd = open("/proc/self/mem", O_RDWR);

    CHECK(fd >= 0 && pwrite(fd, "\xcc", 1, (off_t)((uintptr_t)text + page * RIMF_PAGE + 7)) == 1);
    close(fd);
}

int main(void)
{
    char path[] = "/tmp/mvld-unwritten-XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0 && ftruncate(fd, PAGES * RIMF_PAGE) == 0);
    unlink(path);
    text = mmap(NULL, PAGES * RIMF_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    CHECK(text != MAP_FAILED);
    CHECK(unwritten(0, PAGES));
    for (size_t i = 0; i < PAGES; i += 2)
        (void)*(volatile const uint8_t *)&text[i * RIMF_PAGE]; /* a page that was read */
    CHECK(unwritten(0, PAGES));
    cut_read = 2;
    CHECK(unwritten(0, PAGES));
    cut_read = 1;
    CHECK(!unwritten(0, 1));
    cut_read = 0;
    refuse_open = 1;
    CHECK(!unwritten(0, 1));
    refuse_open = 0;
    poke(PAGES - 2);
    CHECK(!unwritten(0, PAGES) && !unwritten(PAGES - 2, 1));
    CHECK(unwritten(0, PAGES - 2) && unwritten(PAGES - 1, 1));
    poke(0);
    CHECK(!unwritten(0, 1) && unwritten(1, PAGES - 3));
    return 0;
}
