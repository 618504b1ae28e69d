/* SPDX-License-Identifier: MIT
 *
 * loader/start/statistics.c: MVLD_DEBUG=statistics: the times of a start's stages.
 */
#include "loader/loader.h"

#include "loader/start/start.h"

#include <time.h> /* numbers only */

static uint64_t now(const struct loader *l)
{
    struct timespec time = {0};

    SYS3(l->sys, SYS_clock_gettime, CLOCK_MONOTONIC, &time, 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void stage_time(struct loader *l, int stage)
{
    static const char *const names[STAGES] = {
        [STAGE_PLANNED] = "configuration and pipeline",
        [STAGE_MAPPED] = "host loader mapped",
        [STAGE_PATCHED] = "host loader hooked",
        [STAGE_HOOK] = "host loader's own work",
        [STAGE_RUN] = "image and passes",
    };

    if (!rimf_log_enabled(&l->log, MVLD_LOG_STATISTICS))
        return;
    if (stage)
        rimf_log(&l->log, MVLD_LOG_STATISTICS, "start-up: %s: %lu ns", names[stage], now(l) - l->at[stage - 1]);
    l->at[stage] = now(l); /* without this line */
}
