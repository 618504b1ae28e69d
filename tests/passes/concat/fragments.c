/* SPDX-License-Identifier: MIT
 *
 * fragments LIBCONCAT LIBRARY: code of a library (copied_library.c) that is cut into fragments: all of
 * them in another order, some of them, and what is refused.  Each case is a process of its own.
 *
 * A failure means that code is cut where it holds together, that a fragment does something else than
 * the function, or that code is copied though the plan was refused.
 */
#include "region.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/wait.h>

#define PIECES_MAX 64u

static const char *library_path, *folder;
static int (*sum)(int);
static struct mvld_image *image;
static const struct mvld_object *library;
static struct mvld_fragment fragments[PIECES_MAX];
static size_t n;
static uintptr_t end;
static const char *why;
static struct mvld_copies_report report;

static int answers(void *cookie, const char **reason)
{
    (void)cookie, (void)reason;
    return 0;
}

static void set_up(void)
{
    struct mvld_region region;

    image = region_image(&rimf_sys_kernel, folder, answers, &region);
    library = process_object(image, strrchr(library_path, '/') + 1);
    rimf_image_set_unentered(image, 1);
    n = rimf_copy_fragments(image, library, fragments, PIECES_MAX, &why);
    CHECK(n >= 4 && n <= PIECES_MAX, "(%zu, %s)", n, why ? why : "");
    end = 0;
}

static int add(const struct mvld_fragment *fragment)
{
    return rimf_copy_add_fragment(image, library, fragment, end, &end, &why);
}

static size_t fragment_of(uintptr_t home)
{
    size_t i = 0;

    while (home - fragments[i].home >= fragments[i].size)
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
        CHECK(fragments[i].home >= fragments[i - 1].home + fragments[i - 1].size);
    CHECK(rimf_copy_fragments(image, library, few, 1, &why) == n);
    CHECK(few[0].home == fragments[0].home && few[0].size == fragments[0].size && !few[1].size);
    CHECK(rimf_copy_fragments(image, process_object(image, "libconcat.so.1"), NULL, 0, &why) == 0);
    CHECK(why);
}

static void refuses(void)
{
    static const char cut[] = "it cannot be cut there";
    struct mvld_fragment p = fragments[1];

    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.home + 1, p.size - 1}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.home, p.size - 1}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.home, p.size + 1}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.home, 0}));
    refused(-EINVAL, cut, add(&(struct mvld_fragment){p.home + (1ul << 32), p.size}));
    CHECK(add(&p) == 0 && add(&fragments[0]) == 0 && add(&p) == 0);
    CHECK(rimf_copies_commit(image, &report) == -EINVAL && !report.objects);
    CHECK(strstr(rimf_api()->last_error(image), "two fragments of it overlap"));
    CHECK(rimf_copy_of(image, p.home) == 0);
    CHECK(rimf_copy_add(image, library, 0, &end, &why) == 0);
    CHECK(rimf_copies_commit(image, &report) == 0 && rimf_copy_of(image, p.home));
    refused(-ENOTSUP, "it has a copy", add(&p));
}

/* The last fragment first; two of them as one. */
static void reversed(void)
{
    struct mvld_fragment two = {fragments[0].home,
                             fragments[1].home + fragments[1].size - fragments[0].home};
    uintptr_t last = 0;

    for (size_t i = n; i-- > 2;)
        CHECK(add(&fragments[i]) == 0, "%s", why);
    CHECK(add(&two) == 0, "%s", why);
    CHECK(rimf_copies_commit(image, &report) == 0 && report.objects == 1);
    for (size_t i = n; i-- > 2;) {
        uintptr_t at = rimf_copy_of(image, fragments[i].home), behind = at + fragments[i].size;

        CHECK(at > last && (at - fragments[i].home) % RIMF_COPY_ALIGN == 0);
        CHECK(rimf_copy_home(image, at + 1) == fragments[i].home + 1);
        /* a return address */
        CHECK(rimf_copy_home(image, behind) == fragments[i].home + fragments[i].size);
        last = at;
    }
    CHECK(rimf_copy_of(image, fragments[1].home) - rimf_copy_of(image, fragments[0].home) ==
          fragments[1].home - fragments[0].home);
}

static int is_jump(const uint8_t *at)
{
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

    return at[memcmp(at, endbr64, sizeof endbr64) ? 0 : sizeof endbr64] == 0xe9;
}

/* A fragment comes to the first place that fits, in whatever line. */
static void anywhere(void)
{
    uintptr_t at[PIECES_MAX];

    CHECK(add(&fragments[0]) == 0, "%s", why);
    for (size_t i = 1; i < n; i++) {
        at[i] = end + (fragments[i].home - end) % RIMF_COPY_ALIGN + i % 4 * RIMF_COPY_ALIGN;
        end = at[i] - (i % 4 ? RIMF_COPY_ALIGN - 1 : 0);
        CHECK(add(&fragments[i]) == 0, "%s", why);
    }
    CHECK(rimf_copies_commit(image, &report) == 0 && report.objects == 1);
    for (size_t i = 1; i < n; i++)
        CHECK(rimf_copy_of(image, fragments[i].home) == at[i]);
}

/* All of it only where it lies in the lines as at home. */
static void whole(void)
{
    uintptr_t from = region_symbol(image, "concat_code").address + RIMF_COPY_ALIGN, at;

    CHECK(rimf_copy_add(image, library, from, &end, &why) == 0, "%s", why);
    CHECK(rimf_copies_commit(image, &report) == 0 && report.objects == 1);
    at = rimf_copy_of(image, fragments[0].home);
    CHECK(at >= from && (at - fragments[0].home) % RIMF_COPY_LINE == 0);
}

/* What is left out runs at home, and is found there. */
static void some(void)
{
    size_t kept = fragment_of((uintptr_t)sum);

    CHECK(add(&fragments[kept]) == 0, "%s", why);
    CHECK(rimf_copies_commit(image, &report) == 0 && report.objects == 1);
    for (size_t i = 0; i < n; i++)
        CHECK(!rimf_copy_of(image, fragments[i].home) == (i != kept));
    CHECK(report.entries == 1 && is_jump((const uint8_t *)(uintptr_t)sum));
}

static void forgets(void)
{
    reversed();
    rimf_copies_forget(image, library);
    for (size_t i = 0; i < n; i++)
        CHECK(rimf_copy_home(image, fragments[i].home) == 0);
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
    sum = (int (*)(int))(uintptr_t)dlsym(handle, "copied_sum");
    region_analyse(library_path, folder);
    run(lists, 1);
    run(refuses, 1);
    run(reversed, 1);
    run(anywhere, 1);
    run(whole, 1);
    run(some, 1);
    run(forgets, 0);
    snprintf(command, sizeof command, "rm -r %s", made);
    return system(command) != 0;
}
