/* SPDX-License-Identifier: MIT
 *
 * What a run-time constant costs, beside a variable and a compile-time constant.
 *
 *     variable    every read is a load
 *     loaded      multiverse("constant"), nothing is committed: the asm's load
 *     committed   the value stands in the code
 *     compiled    the compiler knows it
 *
 * in cycles of the time stamp counter a round: the least of many short stretches, of all ways in
 * turn.  Work:
 *
 *     hash        (x * multiplier >> shift) & mask, of the hash before: three constants
 *     index       base[x & mask]: a pointer and a mask
 *     modulo      x % size: the compiler multiplies, the others divide
 *     call        through a function pointer
 *     loads       four of a table and four of constants: as many as the processor can make
 *     cold        one read, when its variable is in no cache
 */
#include <multiverse.h>
#include <stdint.h>
#include <stdio.h>
#include <x86intrin.h>

#define NOINLINE __attribute__((noinline, noclone))
#define ROUNDS 4000
#define STRETCHES 3000
#define MULTIPLIER 0x9e3779b97f4a7c15u
#define SHIFT 40
#define MASK 1023
#define SIZE 1000

static uint32_t table[MASK + 1];
static unsigned next(unsigned x)
{
    return x * 5 + 1;
}

#define VALUES(attribute, name)                                                                   \
    attribute uint64_t multiplier_##name;                                                         \
    attribute unsigned shift_##name, mask_##name, size_##name;                                    \
    attribute uint32_t *base_##name;                                                              \
    attribute unsigned (*function_##name)(unsigned);                                              \
    static NOINLINE void set_##name(void)                                                         \
    {                                                                                             \
        multiplier_##name = MULTIPLIER;                                                           \
        shift_##name = SHIFT;                                                                     \
        mask_##name = MASK;                                                                       \
        size_##name = SIZE;                                                                       \
        base_##name = table;                                                                      \
        function_##name = next;                                                                   \
    }                                                                                             \
    static NOINLINE void *cold_line_##name(void)                                                  \
    {                                                                                             \
        return &size_##name;                                                                      \
    }

/* Memory may have changed: no value stays in a register. */
#define EACH(round)                                                                               \
    for (int i = 0; i < ROUNDS; i++) {                                                            \
        round;                                                                                    \
        __asm__ volatile("" : "+r"(x) : : "memory");                                              \
    }                                                                                             \
    return x

#define WORK(name, multiplier, shift, mask, size, base, function)                                 \
    NOINLINE uint64_t hash_##name(uint64_t x)                                                     \
    {                                                                                             \
        EACH(x = ((x + (unsigned)i) * multiplier >> shift) & mask);                               \
    }                                                                                             \
    NOINLINE uint64_t index_##name(uint64_t x)                                                    \
    {                                                                                             \
        EACH(x += base[x & mask]);                                                                \
    }                                                                                             \
    NOINLINE uint64_t modulo_##name(uint64_t x)                                                   \
    {                                                                                             \
        EACH(x = (unsigned)(x + (unsigned)i * 77777) % size);                                     \
    }                                                                                             \
    NOINLINE uint64_t call_##name(uint64_t x)                                                     \
    {                                                                                             \
        EACH(x = function((unsigned)x));                                                          \
    }                                                                                             \
    NOINLINE uint64_t loads_##name(uint64_t x)                                                    \
    {                                                                                             \
        const uint32_t *t = table;                                                                \
        EACH(x += (t[i & MASK] + (mask)) + (t[(i + 99) & MASK] + (size)) +                        \
                  ((t[(i + 198) & MASK] + (shift)) + (t[(i + 297) & MASK] + (multiplier))));      \
    }                                                                                             \
    NOINLINE uint64_t cold_##name(uint64_t x)                                                     \
    {                                                                                             \
        return x + size;                                                                          \
    }

VALUES(, variable)
VALUES(__attribute__((multiverse("constant"))), constant)
#define NAMES(n) multiplier_##n, shift_##n, mask_##n, size_##n, base_##n, function_##n
#define WORK_OF(name, ...) WORK(name, __VA_ARGS__)
WORK_OF(variable, NAMES(variable))
WORK_OF(constant, NAMES(constant))
static NOINLINE unsigned known(unsigned x)
{
    return next(x);
}
WORK_OF(compiled, MULTIPLIER, SHIFT, MASK, SIZE, table, known)

typedef uint64_t work(uint64_t);
enum way { VARIABLE, LOADED, COMMITTED, COMPILED, WAYS };
static const char *const ways[] = {"variable", "loaded", "committed", "compiled"};
static const struct {
    const char *name;
    work *of[WAYS];
} works[] = {
#define OF(name) {#name, {name##_variable, name##_constant, name##_constant, name##_compiled}}
    OF(hash), OF(index), OF(modulo), OF(call), OF(loads), OF(cold)};
#define KINDS (int)(sizeof works / sizeof *works)
#define COLD (KINDS - 1)
static uint64_t least[KINDS][WAYS], result[KINDS][WAYS];

static uint64_t cold(work *one, enum way way)
{
    uint64_t best = UINT64_MAX;
    void *line = way == VARIABLE ? cold_line_variable() : cold_line_constant();

    for (int i = 0; i < 20; i++) {
        uint64_t before, after;
        unsigned cpu;

        one(1); /* its code is there */
        _mm_clflush(line);
        _mm_mfence();
        _mm_lfence();
        before = __rdtsc();
        _mm_lfence();
        one(1);
        after = __rdtscp(&cpu);
        best = after - before < best ? after - before : best;
    }
    return best * ROUNDS;
}

static uint64_t warm(work *one, uint64_t *out)
{
    uint64_t before = __rdtsc();
    unsigned cpu;

    *out = one(12345);
    return __rdtscp(&cpu) - before;
}

int main(void)
{
    set_variable();
    set_constant();
    for (unsigned i = 0; i <= MASK; i++)
        table[i] = i * 7919 & MASK;
    for (int stretch = 0; stretch < STRETCHES; stretch++)
        for (int way = 0; way < WAYS; way++) {
            int bad = way == LOADED      ? multiverse_revert() < 0
                      : way == COMMITTED ? multiverse_commit() < 0
                                         : 0;

            if (bad) {
                fprintf(stderr, "%s\n", multiverse_error());
                return 1;
            }
            for (int w = 0; w < KINDS; w++) {
                uint64_t took = w == COLD ? cold(works[w].of[way], (enum way)way)
                                          : warm(works[w].of[way], &result[w][way]);

                if (!least[w][way] || took < least[w][way])
                    least[w][way] = took;
            }
        }
    for (int w = 0; w < KINDS; w++)
        for (int way = 0; way < WAYS; way++) {
            if (result[w][way] != result[w][0])
                return 2;
            printf("result: %s, %s | %.2f | cycles | \n", works[w].name, ways[way],
                   (double)least[w][way] / ROUNDS);
        }
    return 0;
}
