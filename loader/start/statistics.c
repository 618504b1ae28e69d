/* SPDX-License-Identifier: MIT
 *
 * loader/start/statistics.c: MVLD_DEBUG=statistics: the times of a start's stages.
 */
#include "loader/loader.h"

#include "loader/start/start.h"

#include <time.h> /* numbers only */

void stage_time(struct loader *l, int stage)
{
    static const char *const names[STAGES] = {
        [STAGE_PLANNED] = "configuration and pipeline",
        [STAGE_MAPPED] = "host loader mapped",
        [STAGE_PATCHED] = "host loader hooked",
        [STAGE_HOOK] = "host loader's own work",
        [STAGE_RUN] = "image and passes",
    };
    struct timespec now = {0};

    if (!rimf_log_enabled(&l->log, MVLD_LOG_STATISTICS))
        return;
    SYS3(l->sys, SYS_clock_gettime, CLOCK_MONOTONIC, &now, 0);
    l->at[stage] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (stage)
        rimf_log(&l->log, MVLD_LOG_STATISTICS, "start-up: %s: %lu ns", names[stage],
                 l->at[stage] - l->at[stage - 1]);
    SYS3(l->sys, SYS_clock_gettime, CLOCK_MONOTONIC, &now, 0); /* without this line */
    l->at[stage] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
