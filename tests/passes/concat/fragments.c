/* SPDX-License-Identifier: MIT
 *
 * fragments LIBCONCAT LIBRARY: code of a library (library.c) that is cut into fragments: all of
 * them in another order, some of them, and what is refused.  Each case is a process of its own.
 *
 * A failure means that code is cut where it holds together, that a fragment does something else than
 * the function, or that code moves though the plan was refused.
 */
#include "region.h"

#include "rimf/image/private.h"
#include "rimf/realise/realise.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/wait.h>

#define FRAGMENTS_MAX 64u

static const char *library_path, *folder;
static int (*sum)(int);
static struct mvld_image *image;
static const struct mvld_object *library;
static struct mvld_fragment fragments[FRAGMENTS_MAX];
static size_t n;
static const char *why;
static struct rimf_moved_report report;

static int caller_hooks(void *cookie, const char **reason)
{
    (void)cookie, (void)reason;
    return 0;
}

static void set_up(void)
{
    image = region_image(&rimf_sys_kernel, folder, caller_hooks, MVLD_PAGES_SMALL);
    library = process_object(image, strrchr(library_path, '/') + 1);
    rimf_image_feeder(image)->unentered = 1;
    n = rimf_fragments(image, library, fragments, FRAGMENTS_MAX, &why);
    CHECK(n >= 4 && n <= FRAGMENTS_MAX, "(%zu, %s)", n, why ? why : "");
}

static int add(const struct mvld_fragment *fragment)
{
    return region_move(library, fragment, 0, &why);
}

static size_t fragment_of(uintptr_t original)
{
    size_t i = 0;

    while (original - fragments[i].original >= fragments[i].size)
        CHECK(++i < n);
    return i;
}

static void refused(int error, const char *sentence, int got)
{
    CHECK(got == error, "(%d)", got);
    CHECK(strcmp(why, sentence) == 0, "%s", why);
}

static void lists(void)
{
    struct mvld_fragment few[2] = {{0, 0}, {0, 0}};

    for (size_t i = 1; i < n; i++)
        CHECK(fragments[i].original >= fragments[i - 1].original + fragments[i - 1].size);
    CHECK(rimf_fragments(image, library, few, 1, &why) == n);
    CHECK(few[0].original == fragments[0].original && few[0].size == fragments[0].size && !few[1].size);
    CHECK(rimf_fragments(image, process_object(image, "libconcat.so.1"), NULL, 0, &why) == 0);
    CHECK(why);
}

static void refuses(void)
{
    static const char cut[] = "it cannot be cut there";
    struct mvld_fragment p = fragments[1];

    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.original + 1, p.size - 1}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.original, p.size - 1}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.original, p.size + 1}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.original, 0}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.original + (1ul << 32), p.size}));
    CHECK(add(&p) == 0 && add(&fragments[0]) == 0 && add(&p) == 0);
    CHECK(rimf_moved_commit(image, &report) == -EINVAL && !report.objects);
    CHECK(strstr(rimf_api()->last_error(image), "two fragments of it overlap"));
    CHECK(rimf_moved_to(image, p.original) == 0);
    CHECK(region_move(library, NULL, 0, &why) == 0);
    CHECK(rimf_moved_commit(image, &report) == 0 && rimf_moved_to(image, p.original));
    refused(-ENOTSUP, "it has moved", add(&p));
}

/* The last fragment first; two of them as one. */
static void reversed(void)
{
    struct mvld_fragment two = {fragments[0].original,
                             fragments[1].original + fragments[1].size - fragments[0].original};
    uintptr_t last = 0;

    for (size_t i = n; i-- > 2;)
        CHECK(add(&fragments[i]) == 0, "%s", why);
    CHECK(add(&two) == 0, "%s", why);
    CHECK(rimf_moved_commit(image, &report) == 0 && report.objects == 1);
    for (size_t i = n; i-- > 2;) {
        uintptr_t at = rimf_moved_to(image, fragments[i].original), behind = at + fragments[i].size;

        CHECK(at > last && (at - fragments[i].original) % RIMF_MOVED_LINE == 0);
        CHECK(rimf_original_of(image, at + 1) == fragments[i].original + 1);
        /* a return address */
        CHECK(rimf_original_of(image, behind) == fragments[i].original + fragments[i].size);
        last = at;
    }
    CHECK(rimf_moved_to(image, fragments[1].original) - rimf_moved_to(image, fragments[0].original) ==
          fragments[1].original - fragments[0].original);
}

static int is_jump(const uint8_t *at)
{
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

    return at[memcmp(at, endbr64, sizeof endbr64) ? 0 : sizeof endbr64] == 0xe9;
}

static uintptr_t behind(size_t i)
{
    return rimf_moved_to(image, fragments[i].original) + fragments[i].size + 1;
}

/* A fragment comes to the first place that fits, so many bytes behind the last. */
static void gaps(void)
{
    for (size_t i = n; i-- > 1;)
        CHECK(region_move(library, &fragments[i], i % 4 * 100, &why) == 0, "%s", why);
    CHECK(rimf_moved_commit(image, &report) == 0 && report.objects == 1);
    for (size_t i = n - 1; i-- > 1;) {
        uintptr_t from = behind(i + 1) + i % 4 * 100;

        CHECK(rimf_moved_to(image, fragments[i].original) == from + (fragments[i].original - from) % RIMF_MOVED_LINE);
    }
}

/* One that is hot at the beginning of a line, or where fewest loops lie across two. */
static void hot(void)
{
    CHECK(region_move(library, &fragments[1], 0, &why) == 0, "%s", why);
    CHECK(rimf_fragment_move(image, library, &fragments[2], 0, MVLD_MOVE_HOT, &why) == 0, "%s", why);
    CHECK(rimf_moved_commit(image, &report) == 0 && report.objects == 1);
    CHECK(rimf_moved_to(image, fragments[2].original) % RIMF_MOVED_LINE ==
          moved_in_line(rimf_object_of(library), fragments[2].original, fragments[2].size));
}

/* Only while the pass runs whose region it is; by 64 MiB at most; no flag that nobody knows. */
static void closed(void)
{
    static const char none[] = "no region is open for it";
    const struct mvld_context other = {.pass = "other", .image = image};

    refused(-EINVAL, none, region_move(library, NULL, MVLD_SECTION_MAX + 1, &why));
    refused(-EINVAL, none, rimf_fragment_move(image, library, NULL, 0, 2, &why));
    CHECK(region_move(library, NULL, 0, &why) == 0, "%s", why);
    rimf_pass_failed(image, &other);
    CHECK(image->moved->n_planned == 1);
    rimf_pass_failed(image, &region_context);
    CHECK(image->moved->n_planned == 0);
    refused(-EINVAL, none, region_move(library, NULL, 0, &why));
    CHECK(rimf_image_emit(image) == 0 && !rimf_moved_to(image, fragments[0].original));
    region_open(MVLD_PAGES_SMALL);
    CHECK(region_move(library, NULL, 0, &why) == 0, "%s", why);
    CHECK(rimf_image_emit(image) == 0 && rimf_moved_to(image, fragments[0].original));
    refused(-EINVAL, none, region_move(library, NULL, 0, &why));
}

/* All of it only where it lies in the lines as the original. */
static void whole(void)
{
    uintptr_t from = region_symbol(image, "mvld_moved_code").address + RIMF_MOVED_ALIGN, at;

    CHECK(region_move(library, NULL, RIMF_MOVED_ALIGN, &why) == 0, "%s", why);
    CHECK(rimf_moved_commit(image, &report) == 0 && report.objects == 1);
    at = rimf_moved_to(image, fragments[0].original);
    CHECK(at >= from && (at - fragments[0].original) % RIMF_MOVED_LINE == 0);
}

/* What is left out runs where it was mapped, and is found there. */
static void some(void)
{
    size_t kept = fragment_of((uintptr_t)sum);

    CHECK(add(&fragments[kept]) == 0, "%s", why);
    CHECK(rimf_moved_commit(image, &report) == 0 && report.objects == 1);
    for (size_t i = 0; i < n; i++)
        CHECK(!rimf_moved_to(image, fragments[i].original) == (i != kept));
    CHECK(report.entries == 1 && is_jump((const uint8_t *)(uintptr_t)sum));
}

static void forgets(void)
{
    reversed();
    rimf_moved_forget(image, library);
    for (size_t i = 0; i < n; i++)
        CHECK(rimf_original_of(image, fragments[i].original) == 0);
}

/* Code that a pass added is described, though another pass failed meanwhile. */
static void added(void)
{
    const struct mvld_new_function f = {.name = "added", .size = 16};
    const struct mvld_context other = {.pass = "other", .image = image};
    uint8_t *at;

    rimf_image_set_stage(image, RIMF_STAGE_RUN, &region_context);
    at = rimf_api()->code_add(&region_context, 16, &f, 1, 0);
    CHECK(at, "(%s)", rimf_api()->last_error(image));
    memset(at, 0xc3, 16);
    rimf_pass_failed(image, &other);
    rimf_image_set_stage(image, RIMF_STAGE_NONE, &region_context);
    CHECK(rimf_pass_ran(image, &region_context) == 0);
    CHECK(moved_frames_start(image->moved, (uintptr_t)at, 1) == (uintptr_t)at);
}

static void run(void (*behaviour)(void), int runs_after)
{
    int expected = sum(100), status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (!child) {
        set_up();
        behaviour();
        CHECK(!runs_after || sum(100) == expected, "(%d)", sum(100));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "(%d)", status);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/mvld-fragments-XXXXXX", command[64];
    void *handle;

    CHECK(argc == 3 && dlopen(argv[1], RTLD_NOW), "(LIBCONCAT LIBRARY)");
    library_path = argv[2];
    handle = dlopen(library_path, RTLD_NOW);
    CHECK(handle && mkdtemp(made));
    folder = made;
    sum = (int (*)(int))(uintptr_t)dlsym(handle, "moved_sum");
    region_analyse(library_path, folder);
    run(lists, 1);
    run(refuses, 1);
    run(reversed, 1);
    run(gaps, 1);
    run(hot, 1);
    run(closed, 1);
    run(whole, 1);
    run(some, 1);
    run(forgets, 0);
    run(added, 1);
    snprintf(command, sizeof command, "rm -r %s", made);
    return system(command) != 0;
}
