/* SPDX-License-Identifier: MIT
 *
 * A library of 40 functions f0 to f39, each of which fills a page, and calls some of the others, which could
 * be interposed; each calls through an IFUNC, too.
 *
 *     STEP=n     what the IFUNC's function adds to its argument: other code of the same size
 *     PREFIX=g   instead of f
 *     CHOSEN=x   the IFUNC's name
 *     TEXT       a constant that nothing uses, for its bytes to be changed
 */
#ifndef STEP
# define STEP 1
#endif
#ifndef PREFIX
# define PREFIX f
#endif
#ifndef CHOSEN
# define CHOSEN chosen
#endif

#define JOIN(a, b) a##b
#define NAME(prefix, n) JOIN(prefix, n)
#define F(n) NAME(PREFIX, n)

#define PAIRS(X) \
    X(0, 1, 2) X(2, 3, 4) X(4, 5, 6) X(6, 7, 8) X(8, 9, 10) X(10, 11, 12) X(12, 13, 14) X(14, 15, 16) \
    X(16, 17, 18) X(18, 19, 20) X(20, 21, 22) X(22, 23, 24) X(24, 25, 26) X(26, 27, 28) X(28, 29, 30) \
    X(30, 31, 32) X(32, 33, 34) X(34, 35, 36) X(36, 37, 38)

#define DECLARE(n, m, next) int F(n)(int), F(m)(int);
PAIRS(DECLARE)
int F(38)(int), F(39)(int);

static int one(int x)
{
    return x + STEP;
}

static int two(int x)
{
    return x + 2;
}

static int (*choose(void))(int)
{
    __builtin_cpu_init();
    return sizeof one > 99 ? two : one;
}

int CHOSEN(int) __attribute__((ifunc("choose")));

#define FUNCTION(n, calls)                           \
    __attribute__((aligned(4096))) int F(n)(int x)   \
    {                                                \
        int y = x;                                   \
        for (int i = 0; i < 3; i++)                  \
            y += CHOSEN(x) - x;                      \
        calls                                        \
        return y;                                    \
    }
#define CALL(n, next) y += F(next)(x + n) % 1000 - F(39)(y % 7);
#define DEFINE(n, m, next) FUNCTION(n, CALL(n, m)) FUNCTION(m, CALL(m, next))
PAIRS(DEFINE)
FUNCTION(38, CALL(38, 39))
FUNCTION(39, )

#ifdef TEXT
const char text[] = "some text";
#endif
