/* SPDX-License-Identifier: MIT
 *
 * rimf/image_private.h: the image as the files of rimf/ see it.
 */
#ifndef RIMF_IMAGE_PRIVATE_H
#define RIMF_IMAGE_PRIVATE_H

#include "alloc.h"
#include "image.h"
#include "lock.h"
#include "log.h"
#include "sys.h"

struct rimf_patcher; /* rimf/patch.c */

struct mvld_image {
    const struct rimf_sys *sys;
    const struct rimf_log *log;
    struct rimf_heap heap; /* has a lock of its own, the innermost */
    /* The process-wide one: patches are written, and objects added and removed,
     * by one thread at a time. */
    struct rimf_lock lock;
    struct rimf_patcher *patcher; /* NULL until the first patch */
    char error[512];              /* the last recorded sentence */
};

#endif
