/* SPDX-License-Identifier: MIT
 *
 * Reads of constants stay loads in clang's code, and a commit counts each such constant as generic, with
 * the reason: variables and members, of this unit and of another, in loops, in variation points, as
 * parts, in copies of the structure, in bases and templates.  A failure means a read that no commit reaches and that nobody hears of, or a
 * constant that is called generic without one.
 * compilers: gcc g++
 */
#include "../gcc-plugin/descriptors.h"
#include <errno.h>
#include <multiverse.h>
#include <string.h>
#define K __attribute__((multiverse("constant")))
#define NOINLINE __attribute__((noinline))

struct inner { char pad[3]; K signed char level; int plain; };
struct set {
    int first;
    K int size;
    struct inner log;
    char gap[300];
    K long far_off, unread;
    int array[4];
};
struct set here, copied;
static struct set own, only_handed;
/* As good as in another unit: the compiler sees no definition. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
struct set there;
__asm__(".pushsection .bss\n.globl there\n.type there, @object\n.size there, 512\n.balign 16\nthere: .zero 512\n.popsection");
__attribute__((multiverse)) int sw;
K int once, looped, parted, relaxed, either, other, in_line, at_point, written;
K int by_wish, ordered, only_written, handed;
static K int (*function)(int);

NOINLINE int read_once(void) { return once; }
NOINLINE int read_looped(int *p, int n) { int s = 0; for (int i = 0; i < n; i++) { p[i]++; s += looped + there.log.level + here.log.level; } return s; }
NOINLINE int read_part(void) { char c; memcpy(&c, &parted, 1); return c; }
NOINLINE int read_relaxed(void) { return __atomic_load_n(&relaxed, __ATOMIC_RELAXED); }
NOINLINE int read_one(int x) { return x ? either : other; }
static inline int helper(void) { return in_line; }
NOINLINE int read_in_line(void) { return helper() + 1; }
__attribute__((multiverse)) int read_at_point(int x) { return sw ? at_point : x; }
NOINLINE int read_written(int v) { int before = written; written = v; return before; }
NOINLINE int call(int x) { return function(x); }
NOINLINE long read_members(void) { return own.size + there.size + here.far_off + there.far_off; }
NOINLINE struct set read_copied(void) { return copied; }
#ifdef __cplusplus
namespace space { template <typename T> struct box : inner { T pad; struct { K T value; }; static K T kept; }; box<long> one; box<short> two; template <typename T> T box<T>::kept; }
inline NOINLINE long read_box() { return space::one.value + space::one.level + space::box<long>::kept; }
#else
static long read_box(void) { return 0; }
#endif
/* No reads of a constant. */
NOINLINE int no_reads(int i)
{
    only_written = i;
    here.unread = i;
    there.array[1]++;
    return *(volatile int *)&by_wish + __atomic_load_n(&ordered, __ATOMIC_ACQUIRE) + here.first + here.log.plain;
}
static NOINLINE void fill(struct set *s, int v) { s->size = v; s->log.level = (signed char)v; s->far_off = v; }
static NOINLINE void set(int *k, int v) { *k = v; }
static int inc(int x) { return x + 1; }
static void set_all(int v)
{
    int *all[] = {&once, &looped, &parted, &relaxed, &either, &other, &in_line, &at_point, &written, &by_wish, &ordered, &handed};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        set(all[i], v);
    fill(&here, v), fill(&there, v), fill(&own, v), fill(&copied, v), fill(&only_handed, v);
    function = inc;
}

static void right(int v)
{
    int p[2] = {0};
    CHECK(read_once() == v && read_looped(p, 2) == 6 * v && read_part() == v && read_relaxed() == v);
    CHECK(read_one(v) == v && read_in_line() == v + 1 && read_at_point(v) == v && read_written(v) == v);
    CHECK(call(v) == v + 1 && read_members() == 4 * v && read_copied().far_off == v && no_reads(0) == 2 * v && read_box() == 0);
}

static void is(int generic, void *constant)
{
    const struct multiverse_info_fn *info = multiverse_info_fn(constant);
    if (generic)
        CHECK(info && info->is_constant && info->outcome == MULTIVERSE_GENERIC && info->error == ENOTSUP);
    else
        CHECK(!info || info->outcome != MULTIVERSE_GENERIC);
}

int main(void)
{
    void *generic[] = {&once, &looped, &parted, &relaxed, &either, &other, &in_line, &at_point, &written, (void *)&function,
                       &here.log.level, &there.log.level, &own.size, &there.size, &here.far_off, &there.far_off,
                       &copied.size, &copied.log.level, &copied.far_off, &copied.unread,
#ifdef __cplusplus
                       &space::one.value, &space::one.level, &space::box<long>::kept,
#endif
                       };
    void *none[] = {&by_wish, &ordered, &only_written, &handed, &here.unread, &here.size, &there.unread, &own.far_off,
                    &only_handed.size, &only_handed.far_off,
#ifdef __cplusplus
                    &space::two.value, &space::two.level,
#endif
                    };
    unsigned width, flags;
    const char *name;

    descriptors_read();
    CHECK(find_switch(&there.log.level, &width, &flags, &name) && width == 1 && (flags & 81) == 81 && !strcmp(name, "there.log.level"));
    CHECK(find_switch(&here.far_off, &width, &flags, &name) && width == 8 && (flags & 20) == 20 && !strcmp(name, "here.far_off"));
    for (int v = 1; v < 70; v += 33) {
        set_all(v);
        CHECK(multiverse_commit() >= 0);
        CHECK(multiverse_status()->n_generic == sizeof generic / sizeof *generic && multiverse_status()->n_refused == 0);
        CHECK(strstr(multiverse_report(), "constant there.far_off: some reads of it stay loads"));
        for (unsigned i = 0; i < sizeof generic / sizeof *generic; i++)
            is(1, generic[i]);
        for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
            is(0, none[i]);
        set_all(v + 7);
        right(v + 7);
    }
    return 0;
}
