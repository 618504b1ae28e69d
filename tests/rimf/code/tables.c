/* SPDX-License-Identifier: MIT
 *
 * tables FOLDER FILE...: prints functions and instructions of these files, which are loaded, for tables.py.
 * Their analyses lie in FOLDER; of a
 * large file its first functions.  Addresses are as linked.
 *
 *     F entry end proof flags fragment name|- why|-
 *     I address length flow target others live
 */
#include "../image/process.h"

#include <dlfcn.h>
#include <time.h>

#define MOST (1u << 20) /* bytes of code of one file */

static uintptr_t bias;
static size_t printed;

static int print_instruction(void *cookie, const struct mvld_instruction *i)
{
    (void)cookie;
    printf("I %lx %u %u %lx %u %x\n", i->address - bias, i->length, i->flow, i->target ? i->target - bias : 0,
           i->others, i->live);
    return 0;
}

static int print_function(void *cookie, const struct mvld_function *f)
{
    struct mvld_image *image = cookie;
    struct mvld_function found;
    const char *why;

    printf("F %lx %lx %d %u %zu %s %s\n", f->entry - bias, f->end - bias, f->proof, f->flags, f->fragment.size,
           f->name ? f->name : "-", f->why ? f->why : "-");
    CHECK(!f->fragment.size || (f->fragment.original <= f->entry &&
                                f->end <= f->fragment.original + f->fragment.size));
    if (f->entry % 64 == 0) { /* some */
        CHECK(rimf_api()->function_find(image, f->end - 1, &found) == 0);
        CHECK(found.entry == f->entry && found.end == f->end && found.proof == f->proof);
        CHECK(!f->name == !found.name && (!f->name || !strcmp(f->name, found.name)));
    }
    CHECK(rimf_api()->instruction_each(image, f, print_instruction, NULL, &why) ==
              (f->proof == MVLD_PROOF_NONE ? -ENODATA : 0), "%s", why);
    printed += f->end - f->entry;
    return printed > MOST;
}

static int stop(void *cookie, const struct mvld_function *f)
{
    (void)f;
    return *(int *)cookie;
}

/* ---- many ---- */

static int count(void *cookie, const struct mvld_function *f)
{
    (void)f;
    ++*(size_t *)cookie;
    return 0;
}

static int find_one(void *cookie, const struct mvld_function *f)
{
    struct mvld_function found;

    CHECK(rimf_api()->function_find(cookie, f->entry, &found) == 0 && found.flags == f->flags);
    return 0;
}

static double cpu_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Finds each function of a large object by its address. */
static void find_each(struct mvld_image *image, const struct mvld_object *object)
{
    double start, walk, find;
    const char *why;
    size_t n = 0;

    rimf_image_close_analyses(image); /* so that the walk reads what it needs */
    start = cpu_seconds();
    CHECK(rimf_api()->function_each(image, object, count, &n, &why) == 0);
    walk = cpu_seconds() - start;
    start = cpu_seconds();
    CHECK(rimf_api()->function_each(image, object, find_one, image, &why) == 0);
    find = cpu_seconds() - start;
    /* A walk reads the object's symbols once.  If each search did so, too, this would take hundreds of times as long. */
    CHECK(n < 1000 || find < 30 * walk, "(%zu functions: a walk takes %f s, finding each %f s)", n, walk, find);
}

int main(int argc, char **argv)
{
    struct analysis_place place = {.folder = argv[1], .user = geteuid()};
    const struct mvld_object *object;
    struct mvld_function f;
    struct mvld_image *image;
    int seven = 7;
    const char *why;

    for (int i = 2; i < argc; i++)
        CHECK(dlopen(argv[i], RTLD_LAZY), "%s", dlerror());
    image = process_image();
    rimf_image_feeder(image)->analyses[0] = place;
    rimf_image_feeder(image)->n_analyses = 1;
    for (int i = 2; i < argc; i++) {
        object = process_object(image, strrchr(argv[i], '/') + 1);
        bias = object->bias;
        printf("O %s\n", argv[i]);
        CHECK(rimf_api()->function_each(image, object, print_function, image, &why) >= 0, "%s", why);
        printed = 0;
        CHECK(rimf_api()->function_each(image, object, stop, &seven, &why) == 7);
        find_each(image, object);
    }
    CHECK(rimf_api()->function_find(image, (uintptr_t)main, &f) == -ENOENT);
    CHECK(rimf_api()->function_each(image, rimf_api()->object_at(image, 0), stop, &seven, &why) == -ENODATA && *why);
    return 0;
}
