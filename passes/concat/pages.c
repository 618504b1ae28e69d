/* SPDX-License-Identifier: MIT
 *
 * pages.c: huge pages for the code of the region.
 *
 * The code is copied to small pages; then the kernel is asked to put those of each 2 MiB
 * that the code fills into one huge page (MADV_COLLAPSE, Linux 6.1).  That needs no setting
 * of the machine but transparent huge pages in the kernel, and no memory that the code does
 * not fill: what is left at the end stays in small pages.  The first copy begins on 2 MiB.
 *
 * Once, before the program's first instruction: what comes by dlopen has small pages.  A
 * frozen image is a file whose place follows the executable's, which the kernel puts
 * anywhere: it has small pages, too.
 */
#include "concat.h"

#include "base.h"
#include "sys.h"

#include <errno.h> /* numbers only */

#define HUGE_SIZE 0x200000u
#define COLLAPSE 25 /* MADV_COLLAPSE; headers of older kernels lack it */

uintptr_t concat_begin(const struct mvld_context *ctx, const struct mvld_region *region)
{
    if (rimf_streq(ctx->settings[CONCAT_PAGES].text, "small"))
        return 0;
    return (region->code + HUGE_SIZE - 1) & ~(uintptr_t)(HUGE_SIZE - 1);
}

static const char *reason(long error)
{
    switch (error) {
    case -EINVAL:
        return "the kernel cannot make them of these (before Linux 6.1; without transparent huge "
               "pages)";
    case -ENOMEM:
    case -EAGAIN:
    case -EBUSY:
        return "no memory for them is free in one piece";
    default:
        return "the kernel refuses";
    }
}

void concat_enlarge(const struct mvld_context *ctx, uintptr_t start, uintptr_t end)
{
    size_t whole = (end - start) / HUGE_SIZE, made = 0;
    long error = 0;

    for (size_t i = 0; i < whole; i++) {
        long r = SYS3(ctx->sys, SYS_madvise, start + i * HUGE_SIZE, HUGE_SIZE, COLLAPSE);

        if (sys_failed(r))
            error = r;
        else
            made++;
    }
    ctx->api->log(ctx->image, MVLD_LOG_PASSES,
                  "concat: %zu huge pages of %zu that the code fills%s%s", made, whole,
                  made < whole ? ": " : "", made < whole ? reason(error) : "");
}
