/* SPDX-License-Identifier: MIT
 *
 * cache_image.h: what is wrong with a frozen image (rimf/frozen.h), for `mvld cache`.
 */
#ifndef CACHE_IMAGE_H
#define CACHE_IMAGE_H

#include "frozen.h"
#include "later.h"

/* Each returns NULL, or a sentence to be freed. */

/* Why no program would start from the image in this folder. */
char *image_out_of_date(const struct frozen *, const char *folder);
/* Whether its code is what was written. */
char *image_damaged(const struct frozen_file *);
/* The list of what came by dlopen, beside the image, if there is one. */
char *image_open_later(const struct frozen_file *, struct later_file *);
char *image_damaged_later(const struct frozen_file *, const struct later *);

/* 1 for an image in a format that another build of mvld reads. */
int image_is_of_other_version(const char *folder);

#endif
