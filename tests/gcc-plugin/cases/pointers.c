/* SPDX-License-Identifier: MIT
 *
 * Function pointers: calls in tail position, several calls after one load,
 * variadic calls, struct results, floating-point arguments, pointers of this
 * file alone, arguments that are built before the call; commit, recommit, revert,
 * NULL.  A failure means a call that stays indirect, or a stub that changes an
 * argument.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdarg.h>
#include <string.h>
#define MV __attribute__((multiverse))
#define NOINLINE __attribute__((noinline, noclone))

struct big { long v[6]; };
MV int (*plain)(int);
static MV int (*hidden)(int, int);
MV int (*variadic)(int, ...);
MV struct big (*structs)(int);
MV double (*many)(double, int, float, long, double, int, int, int, int, int);
MV void (*nothing)(void);
MV long (*taking)(struct big);
MV long (*pointing)(const struct big *, int *);
typedef int (*fn)(int);
MV fn named;
MV int (*never)(int); /* no call at all */

int one(int x) { return x + 1; }
int two(int x) { return x + 2; }
int add(int a, int b) { return a + b; }
int sub(int a, int b) { return a - b; }
int sum(int n, ...) { va_list ap; int s = 0; va_start(ap, n); while (n--) s += (int)va_arg(ap, double); va_end(ap); return s; }
struct big make(int x) { struct big b; for (int i = 0; i < 6; i++) b.v[i] = x + i; return b; }
double mix(double a, int b, float c, long d, double e, int f, int g, int h, int i, int j) { return a + b + c + d + e + f + g + h + i + j; }
long last(struct big b) { return b.v[5]; }
long first(struct big b) { return b.v[0]; }
long last_of(const struct big *b, int *i) { return b->v[5] + *i; }
long first_of(const struct big *b, int *i) { return b->v[0] + *i; }
static int called;
void bump(void) { called++; }

NOINLINE int tail(int x) { return plain(x); }
NOINLINE int twice(int x) { return plain(x) + plain(x); }
NOINLINE int loop(int n) { int s = 0; for (int i = 0; i < n; i++) s += hidden(s, i); return s; }
NOINLINE int nested(int x) { return plain(hidden(plain(x), 1)); }
NOINLINE void drops(void) { nothing(); }
NOINLINE int kept(int x) { fn f = plain; plain = two; int r = f(x); plain = one; return r; } /* the old value */
NOINLINE int conditional(int x) { return (x ? plain : named)(x); }
/* The argument is built, here, between the load of the pointer and the call. */
NOINLINE long built(int x) { struct big b = {{x, 1, 2, 3, 4, x + 5}}; return taking(b) + 1; }
NOINLINE long literal(int x) { return taking((struct big){{x, 1, 2, 3, 4, x + 5}}) + 1; }
NOINLINE long addressed(int x) { struct big b = {{x, 1, 2, 3, 4, x + 5}}; int i = x; return pointing(&b, &i) + 1; }
NOINLINE int changes(int x) { int a = plain(x); plain = two; a = a * 100 + plain(x); plain = one; return a; }

int main(void)
{
    descriptors_read();
    plain = one; hidden = add; variadic = sum; structs = make; many = mix; nothing = bump; named = two;
    taking = last; pointing = last_of;
    for (int round = 0; round < 2; round++) {
        CHECK(tail(1) == 2 && twice(1) == 4 && nested(1) == 4);
        CHECK(loop(4) == 11);
        CHECK(variadic(3, 1.0, 2.0, 3.0) == 6);
        struct big b = structs(4);
        CHECK(b.v[0] == 4 && b.v[5] == 9);
        CHECK(many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) == 55);
        called = 0; drops(); CHECK(called == 1);
        CHECK(conditional(0) == 2 && conditional(1) == 2);
        if (!round) { CHECK(kept(1) == 2); CHECK(changes(1) == 203); }
        CHECK(multiverse_commit() > 0 || round);
    }
    plain = two; CHECK(tail(1) == 2 && twice(1) == 4); /* still one() */
    CHECK(multiverse_commit_fn(&plain) == 1);
    CHECK(tail(1) == 3 && twice(1) == 6);
    plain = one; CHECK(multiverse_commit_fn(&plain) == 1); CHECK(tail(1) == 2);
    plain = two; CHECK(multiverse_revert_fn(&plain) == 1); CHECK(tail(1) == 3);
    hidden = sub; CHECK(multiverse_commit_fn(&hidden) == 1); CHECK(loop(3) == -4);
    taking = first; pointing = first_of; /* still last() */
    CHECK(built(1) == 7 && literal(1) == 7 && addressed(1) == 8);
    CHECK(multiverse_commit_fn(&taking) == 1 && multiverse_commit_fn(&pointing) == 1);
    CHECK(built(1) == 2 && literal(1) == 2 && addressed(1) == 3);
    never = NULL; CHECK(multiverse_commit() >= 0);
    CHECK(multiverse_revert() > 0);

    const struct found_function *f = find_function(&plain);
    CHECK(f && f->pointer == (void **)&plain && !strcmp(f->name, "plain"));
#if defined __OPTIMIZE__ && !defined __SANITIZE_ADDRESS__
    /* C++ reads the pointer before it evaluates the arguments: nested()'s outer call. */
#ifdef __cplusplus
    CHECK(f->n_sites >= 5);
#else
    CHECK(f->n_sites >= 6);
#endif
#endif
    CHECK(find_function(&never));
    return 0;
}
