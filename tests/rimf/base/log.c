/* SPDX-License-Identifier: MIT
 *
 * A line of MVLD_DEBUG looks like one of LD_DEBUG, is one write, however long it is,
 * and is written only when its category is on.  A failure means that lines of
 * several processes mix, are cut, or are not shown.
 */
#include "rimf/base/log.h"

#include "../../check.h"
#include "mvld/pass.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static char written[20000];
static size_t n_written;
static int n_writes, interrupt_next, refuse_mmap;
static size_t write_at_most = sizeof written;

static long fake(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                 long f)
{
    (void)sys;
    if (nr == SYS_mmap && refuse_mmap)
        return -ENOMEM;
    if (nr != SYS_write)
        return rimf_syscall(nr, a, b, c, d, e, f);
    CHECK(a == 7);
    if (interrupt_next) {
        interrupt_next = 0;
        return -EINTR;
    }
    n_writes++;
    if ((size_t)c > write_at_most)
        c = (long)write_at_most;
    memcpy(written + n_written, (const void *)b, (size_t)c);
    n_written += (size_t)c;
    written[n_written] = '\0';
    return c;
}

static const struct rimf_sys sys = {fake};
static struct rimf_log sink = {.sys = &sys, .fd = 7, .categories = MVLD_LOG_FILES};

static void expect(const char *text)
{
    char line[20000];

    snprintf(line, sizeof line, "%10d:\t%s\n", (int)getpid(), text);
    CHECK_STR(written, line);
    n_written = 0;
    n_writes = 0;
}

/* Not while another file has the number of the one that the log began with. */
static void follows_its_file(void)
{
    struct rimf_log log = sink;
    int pipe_ends[2], other = open("/dev/null", O_WRONLY), kept = dup(7);

    CHECK(pipe(pipe_ends) == 0 && dup2(pipe_ends[1], 7) == 7);
    rimf_log_start(&log, 7);
    rimf_log(&log, MVLD_LOG_FILES, "first");
    expect("first");
    CHECK(dup2(other, 7) == 7);
    rimf_log(&log, MVLD_LOG_FILES, "into a file of the program's");
    close(7);
    rimf_log(&log, MVLD_LOG_FILES, "nowhere");
    CHECK(n_writes == 0);
    CHECK(dup2(pipe_ends[1], 7) == 7);
    rimf_log(&log, MVLD_LOG_FILES, "back");
    expect("back");
    close(7);
    rimf_log_start(&log, 7);
    CHECK(log.fd == -1);
    if (kept >= 0)
        dup2(kept, 7);
}

int main(void)
{
    static char text[10000];

    follows_its_file();

    rimf_log(&sink, MVLD_LOG_FILES, "file=%s [%d]", "libc.so.6", 0);
    CHECK(n_writes == 1);
    expect("file=libc.so.6 [0]");

    /* Every length around the buffer's. */
    for (size_t n = 480; n < 520; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        rimf_log(&sink, MVLD_LOG_FILES, "%s", text);
        CHECK(n_writes == 1);
        expect(text);
    }
    memset(text, 'y', sizeof text - 1);
    rimf_log(&sink, MVLD_LOG_FILES, "%s", text);
    CHECK(n_writes == 1);
    expect(text);

    interrupt_next = 1;
    write_at_most = 5;
    rimf_log(&sink, MVLD_LOG_FILES, "interrupted and short");
    expect("interrupted and short");
    write_at_most = sizeof written;

    refuse_mmap = 1;
    rimf_log(&sink, MVLD_LOG_FILES, "%s", text);
    CHECK(n_written == 512 && written[511] == '\n');
    n_written = 0;
    n_writes = 0;

    rimf_log(&sink, MVLD_LOG_PATCH, "off");
    CHECK(n_writes == 0 && !rimf_log_enabled(&sink, MVLD_LOG_PATCH));
    CHECK(rimf_log_enabled(&sink, MVLD_LOG_FILES | MVLD_LOG_PATCH));
    rimf_log(&sink, MVLD_LOG_WARNING, "shown when any is on");
    expect("shown when any is on");
    sink.categories = 0;
    CHECK(!rimf_log_enabled(&sink, MVLD_LOG_WARNING));
    sink.categories = ~0u;
    sink.fd = -1;
    rimf_log(&sink, MVLD_LOG_WARNING, "nowhere");
    CHECK(n_writes == 0 && !rimf_log_enabled(&sink, MVLD_LOG_FILES));
    CHECK(!rimf_log_enabled(NULL, MVLD_LOG_FILES));
    return 0;
}
