/* SPDX-License-Identifier: MIT
 *
 * all_or_none LIBCONCAT FIRST SECOND: each system call of a batch of moved code fails in turn,
 * and so does what tells the C library.  A failure means that after a batch that could not
 * be made something is left of it: rights in the region, entries in the unwind table, a
 * jump of an original; or that the batch before it suffers.
 *
 * Each failure has a process of its own.
 */
#include "region.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/wait.h>
#include <unwind.h>

#define SHOWN 65536 /* bytes of the frames that are compared */
#define RANGES 64

/* ---- the kernel -------------------------------------------------------------------------- */

static long calls, fails_at, error_then;

static long faulty(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                   long f)
{
    (void)sys;
    return ++calls == fails_at ? -error_then : rimf_syscall(nr, a, b, c, d, e, f);
}

static const struct rimf_sys faulty_kernel = {faulty};

static int hooks_fail;

static int caller_hooks(void *cookie, const char **why)
{
    (void)cookie;
    *why = "the test does not want to";
    return hooks_fail ? -EACCES : 0;
}

/* ---- the libraries -------------------------------------------------------------------------- */

struct library {
    const char *path;
    const struct mvld_object *object;
    int (*sum)(int);
    int (*call)(int (*)(void *), void *);
    int right; /* sum(100) */
    uint8_t *code;
    size_t code_size;
};

static struct mvld_image *image;
static struct rimf_region region;
static char folder[] = "/tmp/all-or-none-XXXXXX";

static void load(struct library *l, const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);

    CHECK(handle, "(%s)", dlerror());
    region_analyse(path, folder);
    l->path = path;
    l->sum = (int (*)(int))dlsym(handle, "moved_sum");
    l->call = (int (*)(int (*)(void *), void *))dlsym(handle, "moved_call");
    CHECK(l->sum && l->call);
    l->right = l->sum(100);
}

/* As it is before anything is changed. */
static void remember(struct library *l)
{
    const char *name = strrchr(l->path, '/') + 1;

    l->object = process_object(image, name);
    for (size_t i = 0; i < l->object->n_segments; i++) {
        const struct mvld_segment *s = &l->object->segments[i];

        if (!(s->prot & PROT_EXEC))
            continue;
        l->code_size = s->end - s->start;
        l->code = malloc(l->code_size);
        CHECK(l->code);
        memcpy(l->code, (const void *)s->start, l->code_size);
    }
}

static int is_at_home(const struct library *l)
{
    for (size_t i = 0; i < l->object->n_segments; i++)
        if (l->object->segments[i].prot & PROT_EXEC)
            return memcmp(l->code, (const void *)l->object->segments[i].start, l->code_size) == 0;
    return 0;
}

/* ---- what runs -------------------------------------------------------------------------------- */

struct seen {
    uintptr_t caller; /* in the library */
    int frames;
};

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *cookie)
{
    struct seen *seen = cookie;

    if (seen->frames++ == 1)
        seen->caller = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static int look(void *cookie)
{
    _Unwind_Backtrace(frame, cookie);
    return 41;
}

/* It computes the same, and one can unwind through it; 1: where it moved to. */
static int runs(const struct library *l)
{
    struct seen seen = {0}, here = {0};
    uintptr_t original;

    CHECK(l->sum(100) == l->right, "(%s)", l->path);
    _Unwind_Backtrace(frame, &here);
    CHECK(l->call(look, &seen) == 42);
    CHECK(seen.frames == here.frames + 2, "(%d frames, here %d)", seen.frames, here.frames);
    original = rimf_original_of(image, seen.caller);
    CHECK((original != 0) == (seen.caller - region.code < region.code_size));
    original = original ? original : seen.caller;
    CHECK(original >= l->object->start && original < l->object->end);
    return original != seen.caller;
}

/* ---- the region ------------------------------------------------------------------------------- */

struct state {
    struct {
        uintptr_t start, end;
        char rights[5];
    } ranges[RANGES];
    size_t n;
    uint8_t frames[SHOWN];
};

static void add_range(struct state *s, uintptr_t start, uintptr_t end, const char *rights)
{
    if (s->n && s->ranges[s->n - 1].end == start && !strcmp(s->ranges[s->n - 1].rights, rights)) {
        s->ranges[s->n - 1].end = end;
        return;
    }
    CHECK(s->n < RANGES);
    s->ranges[s->n].start = start;
    s->ranges[s->n].end = end;
    strcpy(s->ranges[s->n++].rights, rights);
}

/* The bytes of the unwind table that somebody may look at: behind its count there may be
 * anything. */
static size_t searched(void)
{
    const uint32_t *head = (const uint32_t *)region.frames; /* how, where, how many */
    size_t size = 12 + 8ul * head[2];

    CHECK(size <= SHOWN);
    return size;
}

static void take_state(struct state *s)
{
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    unsigned long start, end;
    char line[4096], rights[5];

    CHECK(maps);
    memset(s, 0, sizeof *s);
    while (fgets(line, sizeof line, maps)) {
        CHECK(sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3);
        if ((start < region.code + region.code_size && end > region.code) ||
            (start < region.frames + region.frames_size && end > region.frames))
            add_range(s, start, end, rights);
    }
    fclose(maps);
    memcpy(s->frames, (const void *)region.frames, searched());
}

/* ---- batches ------------------------------------------------------------------------------------ */

/* The call that `fails` counts from here fails in the commit; 0: none. */
static int commit(const struct library *l, long fails)
{
    struct rimf_moved_report report;
    const char *why = "";
    int error;

    CHECK(region_move(l->object, NULL, 0, &why) == 0, "(%s)", why);
    calls = 0;
    fails_at = fails;
    error = rimf_moved_commit(image, &report);
    fails_at = 0;
    return error;
}

/* The batch failed: nothing of it is there, and nothing of what was there is gone. */
static void check_nothing(const struct library *l, const struct library *before,
                          const struct state *was)
{
    static struct state is;

    take_state(&is);
    CHECK(memcmp(&is, was, sizeof is) == 0);
    CHECK(is_at_home(l));
    CHECK(!runs(l));
    CHECK(!before || runs(before));
    CHECK(*rimf_api()->last_error(image));
}

/* In a process of its own: 2, the batch came to nothing; 1, there is no such call; 0, it
 * failed, and the batch did not need it, or only some of the jumps. */
static int with_failure(const struct library *l, const struct library *before, long at, long error)
{
    static struct state was;
    int failed, moved;
    long n_calls;

    take_state(&was);
    error_then = error;
    hooks_fail = !at;
    failed = commit(l, at);
    n_calls = calls;
    hooks_fail = 0;
    moved = runs(l);
    CHECK(!before || runs(before));
    if (failed && !rimf_moved_to(image, (uintptr_t)l->sum)) {
        check_nothing(l, before, &was);
        CHECK(commit(l, 0) == 0, "(%s)", rimf_api()->last_error(image));
        CHECK(runs(l) && (!before || runs(before)));
        return 2;
    }
    /* When jumps cannot be written, what has none runs where it was mapped. */
    CHECK(moved || (failed && is_at_home(l)), "(call %ld, error %ld)", at, error);
    return at && n_calls < at ? 1 : 0;
}

static void check_each(const struct library *l, const struct library *before)
{
    static const long errors[] = {ENOMEM, EPERM};
    int status, n_nothing = 0;

    for (size_t e = 0; e < 2; e++)
        for (long at = 0;; at++) {
            pid_t child;

            fflush(NULL);
            child = fork();

            CHECK(child >= 0);
            if (!child)
                exit(100 + with_failure(l, before, at, errors[e]));
            CHECK(waitpid(child, &status, 0) == child);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) >= 100,
                  "(status 0x%x when call %ld of %s's batch fails with %ld)", status, at, l->path,
                  errors[e]);
            CHECK(at || WEXITSTATUS(status) == 102, "(nobody answered)");
            n_nothing += WEXITSTATUS(status) == 102;
            if (WEXITSTATUS(status) == 101)
                break;
            CHECK(at < 1000);
        }
    printf("%s: %d batches came to nothing\n", l->path, n_nothing);
    CHECK(n_nothing >= 2 * 6); /* the answers, and at least as many calls as there are steps */
}

int main(int argc, char **argv)
{
    struct library first = {0}, second = {0};
    char command[64];

    CHECK(argc == 4 && mkdtemp(folder));
    CHECK(dlopen(argv[1], RTLD_NOW), "(%s)", dlerror());
    load(&first, argv[2]);
    load(&second, argv[3]);
    image = region_image(&faulty_kernel, folder, caller_hooks, MVLD_PAGES_SMALL);
    region = image->moved->region;
    /* As stage 0 does for unwinders, and here for take_state. */
    CHECK(mprotect((void *)region.frames, region.frames_size, PROT_READ) == 0);
    remember(&first);
    remember(&second);
    check_each(&first, NULL);
    CHECK(commit(&first, 0) == 0 && runs(&first), "(%s)", rimf_api()->last_error(image));
    rimf_image_close_analyses(image);
    check_each(&second, &first);
    CHECK(commit(&second, 0) == 0 && runs(&second) && runs(&first));
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
