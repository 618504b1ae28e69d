/* SPDX-License-Identifier: MIT
 *
 * region.h: the test's own process as an image with libconcat.so.1's region, over the test's
 * kernel; analyses of its libraries are in a folder of the test.
 */
#ifndef TESTS_CONCAT_REGION_H
#define TESTS_CONCAT_REGION_H

#include "../../rimf/image/process.h"

#include "rimf/analyze/analyser.h"
#include "rimf/moved/moved.h"

#include <sys/mman.h>

static inline void region_analyse(const char *path, const char *folder)
{
    struct analyser a = {0};

    CHECK(analyser_run(&a, path) == 0 && analysis_write(&a, folder) == 0, "%s: %s", path,
          a.object.error);
    analyser_free(&a);
}

static inline struct mvld_symbol region_symbol(struct mvld_image *image, const char *name)
{
    struct mvld_symbol symbol;

    CHECK(rimf_api()->symbol_find(process_object(image, "libconcat.so.1"), name, NULL, &symbol) ==
          0);
    return symbol;
}

static struct mvld_context region_context = {.pass = "test"};

/* As the pass says at each of its runs. */
static inline void region_open(enum mvld_pages pages)
{
    const char *why = "";

    rimf_image_set_stage(region_context.image, RIMF_STAGE_RUN, &region_context);
    CHECK(rimf_api()->region_open(&region_context, pages, 0, &why) == 0, "(%s)", why);
    rimf_image_set_stage(region_context.image, RIMF_STAGE_NONE, NULL);
}

/* All that can move of an object, or a fragment of it. */
static inline int region_move(const struct mvld_object *object, const struct mvld_fragment *fragment,
                              size_t gap, const char **why)
{
    return rimf_api()->fragment_move(region_context.image, object, fragment, gap, 0, why);
}

static inline struct mvld_image *region_image(const struct rimf_sys *kernel, const char *folder,
                                              int (*answers)(void *cookie, const char **why),
                                              enum mvld_pages pages)
{
    static struct process process;
    static struct analysis_place place;
    const struct rimf_region *region;
    struct mvld_image *image;
    struct rimf_change change;

    place = (struct analysis_place){.folder = folder, .user = getuid()};
    process_read(&process);
    CHECK(rimf_image_create(kernel, &process_log, &image) == 0);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    rimf_image_feeder(image)->analyses[0] = place;
    rimf_image_feeder(image)->n_analyses = 1;
    rimf_image_feeder(image)->caller_hooks = answers;
    region_context.image = image;
    region_context.api = rimf_api();
    region_open(pages);
    region = &image->moved->region;
    CHECK(region->code == region_symbol(image, "mvld_moved_code").address &&
          region->frames == region_symbol(image, "mvld_moved_frames").address);
    /* What a failed batch takes away can be read from then on; so rights can be compared. */
    CHECK(!mprotect((void *)region->frames, region->frames_size, PROT_READ));
    return image;
}

#endif
