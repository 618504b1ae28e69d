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
} told;

static void tell(const struct multiverse_info_fn *info, void *cookie)
{
    CHECK(cookie == &told && told.n < 8);
    told.function[told.n] = info->function;
    told.outcome[told.n] = info->outcome;
    told.error[told.n++] = info->error;
    if (told.commits) { /* it may call us, and is not told of that again */
        told.commits--;
        told.result = multiverse_commit();
    }
}

static void counts(size_t unchanged, size_t changed, size_t generic, size_t refused)
{
    const struct multiverse_status *s = multiverse_status();

    CHECK(s->n_unchanged == unchanged && s->n_changed == changed && s->n_generic == generic &&
              s->n_refused == refused, "(%zu unchanged, %zu changed, %zu generic, %zu refused)",
          s->n_unchanged, s->n_changed, s->n_generic, s->n_refused);
}

static void became(void *function, enum multiverse_outcome outcome, int error)
{
    const struct multiverse_info_fn *info = multiverse_info_fn(function);

    CHECK(info && info->outcome == outcome && info->error == error, "(%d, error %d)",
          info->outcome, info->error);
    CHECK(!info->why == !error);
}

static void was_told(int n, void *function, enum multiverse_outcome outcome, int error)
{
    int found = 0;

    for (int i = 0; i < told.n; i++)
        found += told.function[i] == function && told.outcome[i] == (int)outcome &&
                 told.error[i] == error;
    CHECK(told.n == n && found == 1, "(told of %d)", told.n);
    told.n = 0;
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
    became((void *)point, MULTIVERSE_GENERIC, ENOENT);
    became(&pointer, MULTIVERSE_GENERIC, EINVAL);
    counts(0, 0, 2, 0);

    /* Who comes to be told later is told of what was missed before, and still is. */
    choose = 1;
    CHECK(multiverse_commit_fn((void *)point) == 1);
    counts(0, 1, 0, 0);
    became((void *)point, MULTIVERSE_CHANGED, 0);
    multiverse_on_miss(tell, &told);
    CHECK(multiverse_commit_fn((void *)point) == 0);
    counts(1, 0, 0, 0);
    became((void *)point, MULTIVERSE_UNCHANGED, 0);
    was_told(1, &pointer, MULTIVERSE_GENERIC, EINVAL);

    /* Each commit tells anew; the count is of bindings that changed. */
    choose = 7;
    pointer = nothing;
    CHECK(multiverse_commit_refs(&choose) == 1);
    counts(0, 0, 1, 0);
    was_told(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    CHECK(multiverse_commit() == 1);
    counts(0, 1, 1, 0);
    CHECK(strstr(multiverse_report(), "no variant fits"), "the report was lost");
    was_told(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    CHECK(multiverse_revert() == 1);
    counts(1, 1, 0, 0);
    CHECK(told.n == 0);

    /* Who is told commits: it is told of that by the next one. */
    told.commits = 1;
    CHECK(multiverse_commit_refs(&choose) == 0);
    CHECK(told.result == 1);
    counts(0, 0, 1, 0);
    was_told(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    CHECK(multiverse_commit_fn(&pointer) == 0);
    was_told(1, (void *)point, MULTIVERSE_GENERIC, ENOENT);
    choose = 1;

    /* Refused. */
    pointer = far_function();
    CHECK(multiverse_commit() == 2);
    counts(0, 1, 0, 1);
    became(&pointer, MULTIVERSE_REFUSED, ERANGE);
    was_told(1, &pointer, MULTIVERSE_REFUSED, ERANGE);
    memcpy(linked, site_one, 5);
    write_site(foreign);
    pointer = five;
    CHECK(multiverse_commit() == 1);
    counts(1, 1, 0, 0);
    became(&pointer, MULTIVERSE_CHANGED, ESTALE); /* one of its sites */
    CHECK(jump_two() == 5);
    CHECK(multiverse_commit() == 0);
    counts(2, 0, 0, 0);
    became(&pointer, MULTIVERSE_UNCHANGED, ESTALE);
    write_site(linked);
    CHECK(multiverse_commit() == 0);
    became(&pointer, MULTIVERSE_UNCHANGED, 0);
    CHECK(call_one() == 5 && told.n == 0);

    /* Nothing was looked at; nobody is told any more. */
    CHECK(multiverse_commit_fn(NULL) == -1);
    counts(0, 0, 0, 0);
    CHECK(multiverse_commit_refs(&told) == -1 && errno == EINVAL);
    counts(0, 0, 0, 0);
    multiverse_on_miss(NULL, NULL);
    pointer = NULL;
    CHECK(multiverse_commit() == 1);
    counts(1, 0, 1, 0);
    CHECK(told.n == 0);
    return 0;
}
