/* SPDX-License-Identifier: MIT
 *
 * cache/image.h: what is wrong with a frozen image (rimf/store/frozen.h), for `mvld cache`.
 */
#ifndef CACHE_IMAGE_H
#define CACHE_IMAGE_H

#include "rimf/store/frozen.h"
#include "rimf/store/later.h"

enum image_state {
    IMAGE_GOOD,
    IMAGE_OF_OTHER_FILES, /* the program or a library was replaced: nobody starts from it */
    IMAGE_OF_OTHER_MVLD,  /* another build of mvld, or of a pass, made it: that one may be in use */
    IMAGE_DAMAGED
};

/* Whether a program would start from the image in this folder, code and dlopen's list apart; *why is a
 * sentence to be freed, or NULL.  The image is mapped where file->map is not NULL. */
enum image_state image_look(const char *folder, struct frozen_file *, char **why);
/* What an image's folder may be called. */
int image_is_named(const char *name);

/* The lock of the cache of which this is a folder (cache.h), or -1: somebody writes there, or it was never
 * written to by this user. */
int cache_lock_of(const char *folder);
/* With the lock: what a build that was killed has left there, to be freed, or NULL. */
char *cache_left_over(const char *folder);

/* Each returns NULL, or a sentence to be freed. */

/* Whether the file of that name is still this one; whether the mvld at hand made it. */
char *image_other_file(const char *name, const struct file_id *);
char *image_other_maker(uint64_t made_by);
/* Whether its code is what was written. */
char *image_damaged(const struct frozen_file *);
/* The list of what came by dlopen, beside the image, if there is one. */
char *image_open_later(const struct frozen_file *, struct later_file *);
char *image_damaged_later(const struct frozen_file *, const struct later *);

/* These pages of a file of that name. */
char *image_compare_pages(int fd, uint64_t size, uint64_t offset, uint64_t hash, const char *name);

#endif
