/* SPDX-License-Identifier: MIT
 *
 * The image follows the link map: objects keep their pointers, gone ones are
 * reported once, a failure changes nothing, many objects are no problem, and other
 * threads may look meanwhile.  A failure means that a pass works on an object that
 * is not there, or misses one that is.
 */
#include "process.h"

#include "../elf/made_elf.h"

#include <pthread.h>
#include <time.h>

#define MANY 2000

static struct rimf_source sources[MANY];
static char *pages;

static struct rimf_change update(struct mvld_image *image, const struct rimf_source *list,
                                 size_t n)
{
    struct rimf_change change;

    CHECK(rimf_image_update(image, list, n, &change) == 0);
    CHECK(rimf_api()->object_count(image) == n);
    CHECK(rimf_image_check(image) == 0, "(%s)", rimf_api()->last_error(image));
    return change;
}

static struct mvld_image *create(const struct rimf_sys *sys)
{
    struct mvld_image *image;

    CHECK(rimf_image_create(sys, &process_log, &image) == 0);
    CHECK(rimf_image_check(image) == 0 && rimf_api()->object_count(image) == 0);
    return image;
}

static const struct mvld_object *at(struct mvld_image *image, size_t index)
{
    return rimf_api()->object_at(image, index);
}

static void add_and_remove(void)
{
    struct mvld_image *image = create(&rimf_sys_kernel);
    const struct mvld_object *first, *second, *third;
    struct rimf_source list[4] = {sources[0], sources[1], sources[2]};
    struct rimf_change change = update(image, list, 3);

    CHECK(change.n_added == 3 && change.n_removed == 0);
    first = at(image, 0), second = at(image, 1), third = at(image, 2);
    CHECK(change.added[0] == first && change.added[2] == third && at(image, 3) == NULL);
    CHECK(first->start == list[0].bias && first->end == list[0].bias + MADE_PAGE - 1);
    CHECK(rimf_api()->object_find(image, list[1].bias + 0x123) == second);
    CHECK(rimf_api()->object_find(image, list[1].bias + MADE_PAGE - 1) == NULL);

    change = update(image, list, 3);
    CHECK(change.n_added == 0 && change.n_removed == 0 && at(image, 1) == second);

    /* The middle one goes; its description stays until the next update. */
    list[1] = sources[2];
    change = update(image, list, 2);
    CHECK(change.n_added == 0 && change.n_removed == 1 && change.removed[0] == second);
    CHECK_STR(second->name, "made");
    CHECK(at(image, 0) == first && at(image, 1) == third);
    CHECK(rimf_api()->object_find(image, sources[1].bias) == NULL);
    struct mvld_symbol symbol;
    CHECK(rimf_api()->symbol_find(second, "any", NULL, &symbol) == -ENOENT);
    CHECK(rimf_api()->note_each(second, "GNU", 3, NULL, NULL) == 0);

    /* One comes in front, one goes, the order changes, one is named twice. */
    list[0] = sources[3], list[1] = sources[2], list[2] = sources[4], list[3] = sources[4];
    CHECK(rimf_image_update(image, list, 4, &change) == 0);
    CHECK(rimf_image_check(image) == 0, "(%s)", rimf_api()->last_error(image));
    CHECK(change.n_added == 2 && change.n_removed == 1 && change.removed[0] == first);
    CHECK(rimf_api()->object_count(image) == 3 && at(image, 1) == third);

    /* The same link map at another place is another object. */
    list[1].bias = sources[5].bias, list[1].dynamic = sources[5].dynamic;
    change = update(image, list, 3);
    CHECK(change.n_added == 1 && change.n_removed == 1 && change.removed[0] == third);

    change = update(image, NULL, 0);
    CHECK(change.n_removed == 3 && change.n_added == 0);
    rimf_image_destroy(image);
}

/* ---- no memory at any point ---------------------------------------------------- */

static int mmaps_left;

static long few_mmaps(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                      long f)
{
    (void)sys;
    if (nr == SYS_mmap && mmaps_left-- <= 0)
        return -ENOMEM;
    return rimf_syscall(nr, a, b, c, d, e, f);
}

static void out_of_memory(void)
{
    static const struct rimf_sys sys = {few_mmaps};
    struct mvld_image *image;
    struct rimf_change change;
    int failures = 0;

    mmaps_left = 0;
    CHECK(rimf_image_create(&sys, &process_log, &image) == -ENOMEM);
    mmaps_left = 1000;
    image = create(&sys);
    update(image, sources, 10);
    for (mmaps_left = 0;; failures++) {
        const struct mvld_object *third = at(image, 2);
        int limit = mmaps_left, result = rimf_image_update(image, sources + 1, 600, &change);

        if (result == 0)
            break;
        CHECK(result == -ENOMEM && change.n_added == 0 && change.n_removed == 0);
        CHECK(rimf_api()->object_count(image) == 10 && at(image, 2) == third);
        CHECK(rimf_image_check(image) == 0, "(%s)", rimf_api()->last_error(image));
        mmaps_left = limit + 1;
    }
    CHECK(failures > 3, "(%d)", failures);
    CHECK(change.n_added == 591 && change.n_removed == 1);
    CHECK(rimf_image_check(image) == 0);
    rimf_image_destroy(image);
}

/* From a signal handler that interrupted an update. */
static void interrupted(void)
{
    struct mvld_image *image = create(&rimf_sys_kernel);
    struct rimf_change change;

    update(image, sources, 2);
    CHECK(rimf_heap_enter(&image->heap) == 0);
    CHECK(rimf_image_update(image, sources, 3, &change) == -EDEADLK);
    CHECK(change.n_added == 0 && rimf_api()->object_count(image) == 2);
    rimf_heap_leave(&image->heap);
    CHECK(update(image, sources, 3).n_added == 1);
    rimf_image_destroy(image);
}

/* ---- many ------------------------------------------------------------------------ */

static double cpu_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* All come in falling order of addresses, are turned round, and go: ten times as many as programs have. */
static void many(void)
{
    static struct rimf_source turned[MANY];
    struct mvld_image *image = create(&rimf_sys_kernel);
    double start;

    for (size_t i = 0; i < MANY; i++)
        turned[i] = sources[MANY - 1 - i];
    start = cpu_seconds();
    update(image, turned, MANY);
    for (size_t i = 0; i < MANY; i++)
        CHECK(rimf_api()->object_find(image, sources[i].bias + 0x500) == at(image, MANY - 1 - i));
    update(image, sources, MANY);
    update(image, sources + MANY / 2, MANY / 2);
    update(image, NULL, 0);
    start = cpu_seconds() - start;
    CHECK(start < 1, "(%f s for %d objects; 0.03 is usual)", start, MANY);
    rimf_image_destroy(image);
}

/* ---- readers ------------------------------------------------------------------------ */

static struct mvld_image *watched;
static int stop;

static void *watch(void *unused)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        const struct mvld_object *first = rimf_api()->object_at(watched, 0), *found;

        CHECK(first && first->bias == sources[0].bias);
        found = rimf_api()->object_find(watched, sources[0].bias + 0x10);
        CHECK(found == first);
        CHECK(rimf_api()->object_count(watched) >= 1);
        rimf_api()->object_find(watched, sources[50].bias + 0x10);
    }
    return unused;
}

static void readers(void)
{
    pthread_t ids[2];
    struct rimf_change change;

    watched = create(&rimf_sys_kernel);
    update(watched, sources, 1);
    for (int i = 0; i < 2; i++)
        pthread_create(&ids[i], NULL, watch, NULL);
    for (size_t i = 0; i < 3000; i++)
        CHECK(rimf_image_update(watched, sources, 1 + i * 37 % 100, &change) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    CHECK(watched->readers == 0);
    update(watched, sources, 1);
    CHECK(watched->retired == NULL);
    rimf_image_destroy(watched);
}

int main(void)
{
    pages = made_pages(MANY);
    for (size_t i = 0; i < MANY; i++) {
        made_object(pages + i * MADE_PAGE);
        sources[i] = made_source(pages + i * MADE_PAGE, "made");
    }
    add_and_remove();
    out_of_memory();
    interrupted();
    many();
    readers();
    return 0;
}
