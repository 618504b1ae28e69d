/* SPDX-License-Identifier: MIT
 *
 * What became of functions, by values: counts, each function's outcome and why, and who is told
 * of those without a fitting variant.
 */
#include <sys/mman.h>

#include "check.h"

extern int (*pointer)(void);
extern int choose; /* of point(): its variant is for 1 */
extern unsigned char site_one[];
int nothing(void), five(void), point(void), call_one(void), jump_two(void);

static struct {
    int n, commits, result;
    void *function[8];
    int outcome[8], error[8];
} reported;

static void report(const struct multiverse_info_fn *info, void *cookie)
{
    CHECK(cookie == &reported && reported.n < 8);
    reported.function[reported.n] = info->function;
    reported.outcome[reported.n] = info->outcome;
    reported.error[reported.n++] = info->error;
    if (reported.commits) { /* it may call us, and is not told of that again */
        reported.commits--;
        reported.result = multiverse_commit();
    }
}

static void counts(size_t unchanged, size_t changed, size_t generic, size_t refused)
{
    const struct multiverse_status *s = multiverse_status();

    CHECK(s->n_unchanged == unchanged && s->n_changed == changed && s->n_generic == generic &&
              s->n_refused == refused, "(%zu unchanged, %zu changed, %zu generic, %zu refused)",
          s->n_unchanged, s->n_changed, s->n_generic, s->n_refused);
}

static void has_outcome(void *function, enum multiverse_outcome outcome, int error)
{
    const struct multiverse_info_fn *info = multiverse_info_fn(function);

    CHECK(info && info->outcome == outcome && info->error == error, "(%d, error %d)",
          info->outcome, info->error);
    CHECK(!info->why == !error);
}

static void was_reported(int n, void *function, enum multiverse_outcome outcome, int error)
{
    int found = 0;

    for (int i = 0; i < reported.n; i++)
        found += reported.function[i] == function && reported.outcome[i] == (int)outcome &&
                 reported.error[i] == error;
    CHECK(reported.n == n && found == 1, "(%d were reported)", reported.n);
    reported.n = 0;
}

/* `mov $3,%eax; ret`, 64 TiB away from everything. */
static int (*far_function(void))(void)
{
    void *at = mmap((void *)0x100000000000, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(at != MAP_FAILED);
    memcpy(at, "\xb8\3\0\0\0\xc3", 6);
    CHECK(mprotect(at, 4096, PROT_READ | PROT_EXEC) == 0);
    return (int (*)(void))at;
}

static void write_site(const unsigned char *bytes)
{
    void *page = (void *)((uintptr_t)site_one & ~4095ul);

    CHECK(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    memcpy(site_one, bytes, 5);
    CHECK(mprotect(page, 8192, PROT_READ | PROT_EXEC) == 0);
}

int main(void)
{
    static const unsigned char foreign[] = {0x90, 0x90, 0x90, 0x90, 0x90};
    unsigned char linked[5];

    counts(0, 0, 0, 0);
    CHECK(multiverse_commit() == 0); /* choose is 0, pointer NULL */
    counts(0, 0, 2, 0);
    has_outcome((void *)point, MULTIVERSE_GENERIC, ENOENT);
    has_outcome(&pointer, MULTIVERSE_GENERIC, EINVAL);
    counts(0, 0, 2, 0);

    /* Who comes to be told later is told of what was missed before, and still is. */
    choose = 1;
    CHECK(multiverse_commit_fn((void *)point) == 1);
    counts(0, 1, 0, 0);
    has_outcome((void *)point, MULTIVERSE_CHANGED, 0);
    multiverse_on_miss(report, &reported);
    CHECK(multiverse_commit_fn((void *)point) == 0);
    counts(1, 0, 0, 0);
    has_outcome((void *)point, MULTIVERSE_UNCHANGED, 0);
    was_reported(1, &pointer, MULTIVERSE_GENERIC, EINVAL);

    /* Each commit tells anew; the count is of bindings that changed. */
    choose = 7;
    pointer = nothing;
    CHECK(multiverse_commit_refs(&choose) == 1);
    counts(0, 0, 1, 0);
    was_reported(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    CHECK(multiverse_commit() == 1);
    counts(0, 1, 1, 0);
    CHECK(strstr(multiverse_report(), "no variant fits"), "the report was lost");
    was_reported(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    CHECK(multiverse_revert() == 1);
    counts(1, 1, 0, 0);
    CHECK(reported.n == 0);

    /* Who is told commits: it is told of that by the next one. */
    reported.commits = 1;
    CHECK(multiverse_commit_refs(&choose) == 0);
    CHECK(reported.result == 1);
    counts(0, 0, 1, 0);
    was_reported(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    CHECK(multiverse_commit_fn(&pointer) == 0);
    was_reported(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    choose = 1;

    /* Refused. */
    pointer = far_function();
    CHECK(multiverse_commit() == 2);
    counts(0, 1, 0, 1);
    has_outcome(&pointer, MULTIVERSE_REFUSED, ERANGE);
    CHECK(strstr(multiverse_report(), "out of reach"), "who asked for the outcome has lost the report");
    was_reported(1, &pointer, MULTIVERSE_REFUSED, ERANGE);
    memcpy(linked, site_one, 5);
    write_site(foreign);
    pointer = five;
    CHECK(multiverse_commit() == 1);
    counts(1, 1, 0, 0);
    has_outcome(&pointer, MULTIVERSE_CHANGED, ESTALE); /* one of its sites */
    CHECK(jump_two() == 5);
    CHECK(multiverse_commit() == 0);
    counts(2, 0, 0, 0);
    has_outcome(&pointer, MULTIVERSE_UNCHANGED, ESTALE);
    write_site(linked);
    CHECK(multiverse_commit() == 0);
    has_outcome(&pointer, MULTIVERSE_UNCHANGED, 0);
    CHECK(call_one() == 5 && reported.n == 0);

    /* Nothing was looked at; nobody is told any more. */
    CHECK(multiverse_commit_fn(NULL) == -1);
    counts(0, 0, 0, 0);
    CHECK(multiverse_commit_refs(&reported) == -1 && errno == EINVAL);
    counts(0, 0, 0, 0);
    multiverse_on_miss(NULL, NULL);
    pointer = NULL;
    CHECK(multiverse_commit() == 1);
    counts(1, 0, 1, 0);
    CHECK(reported.n == 0);
    return 0;
}
