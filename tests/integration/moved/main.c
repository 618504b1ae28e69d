/* SPDX-License-Identifier: MIT
 *
 * A program in three objects (../stress) whose code has moved looks at its own
 * instructions: after each commit every recorded call must lead to the variant in force, or
 * hold its body, moved and original; the entry of a function that moved must jump there,
 * while in the original stands the jump to it.  A revert brings back every byte.  Functions
 * without unwinding descriptions (straddling.S) stay; so do their sites.
 */
#define _GNU_SOURCE
#include "../named_by.h"
#include "../stress/stress.h"

#include <link.h>
#include <mvld/descriptor.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((multiverse("values", 0, 1, 2))) int mode;
__attribute__((multiverse)) int (*hook)(void) = hook_0;
CALLERS(program)

#define SITES 64
#define INLINE 8
#define DECLARE_OBJECT(object)                                                                    \
    extern intptr_t object##_distance(void);                                                      \
    extern const struct multiverse_callsite *const object##_distance_sites[2];                    \
    extern const char *const object##_distance_functions[2];
DECLARE_OBJECT(program)
DECLARE_OBJECT(oneof)
DECLARE_OBJECT(other)

static const struct object {
    const char *name;
    intptr_t (*distance)(void);
    const struct multiverse_callsite *const *sites;
    const char *const *functions;
} objects[3] = {{"program", program_distance, program_distance_sites, program_distance_functions},
                {"oneof", oneof_distance, oneof_distance_sites, oneof_distance_functions},
                {"other", other_distance, other_distance_sites, other_distance_functions}};

static struct site {
    const struct object *object;
    const unsigned char *original, *moved;
    unsigned char original_was[10], moved_was[10];
    void *callee; /* or the constant that is read */
} sites[SITES];
static size_t n_sites;
static struct inline_call {
    struct site site;
    const struct multiverse_function *record;
} inline_calls[INLINE];
static size_t n_inline;
static unsigned direct, bodies, reads, shadowed, nops;

static void fail(const struct site *site, const char *what)
{
    printf("%s, mode %d: %s\n", site ? site->object->name : "program", mode, what);
    for (int i = 0; site && i < 12; i++)
        printf(i < 6 ? "%02x " : i == 6 ? "  original %02x" : " %02x",
               i >= 6 ? site->original[i - 6] : site->moved ? site->moved[i] : 0);
    exit(1);
}

static int stays(const unsigned char *site)
{
    for (const struct stress_straddling *s = stress_straddling(); s->call; s++)
        if (s->site == site)
            return 1;
    return 0;
}

static void read_sites(void)
{
    for (size_t i = 0; i < 3; i++) {
        intptr_t distance = objects[i].distance();

        if (!distance)
            fail(NULL, objects[i].name);
        for (const struct multiverse_callsite *s = objects[i].sites[0]; s < objects[i].sites[1];
             s++) {
            struct site *site = &sites[n_sites++];

            site->object = &objects[i];
            site->original = (const unsigned char *)&s->site + s->site;
            site->moved = stays(site->original) ? NULL : site->original + distance;
            site->callee = named_by(&s->callee);
            memcpy(site->original_was, site->original, 10);
            if (site->moved)
                memcpy(site->moved_was, site->moved, 10);
            if (n_sites == SITES)
                return;
        }
    }
}

static void read_inline_calls(void)
{
    for (size_t i = 0; i < 3; i++) {
        const char *at = objects[i].functions[0];

        for (const struct multiverse_function *f; at < objects[i].functions[1]; at += f->size) {
            struct site *site = &inline_calls[n_inline].site;

            f = (const void *)at;
            if (!(f->flags & MULTIVERSE_FUNCTION_INLINE) || n_inline == INLINE)
                continue;
            inline_calls[n_inline++].record = f;
            site->object = &objects[i];
            site->original = (const unsigned char *)&f->pad + f->pad;
            site->moved = site->original + objects[i].distance();
            memcpy(site->original_was, site->original, 10);
            memcpy(site->moved_was, site->moved, 10);
        }
    }
}

/* Where the instruction leads; NULL: it is no direct call or jump. */
static const unsigned char *target(const unsigned char *at)
{
    size_t prefix = at[0] == 0x67 || at[0] == 0x40;
    int32_t distance;

    if (at[prefix] != 0xe8 && at[prefix] != 0xe9)
        return NULL;
    memcpy(&distance, at + prefix + 1, 4);
    return at + prefix + 5 + distance;
}

/* A question, whose inline call is a branch. */
__attribute__((multiverse)) static _Bool odd;
__attribute__((multiverse("inline"))) static int is_odd(void) { return odd ? 31 : 30; }
static __attribute__((noinline, noclone)) int program_odd(void) { return is_odd(); }
static unsigned branches;

/* The moved arm that fits, NULL when there is none. */
static const unsigned char *arm_of(const struct inline_call *call)
{
    const struct multiverse_variant *v = (const void *)(call->record + 1);
    const struct multiverse_guard *g = (const void *)(v + call->record->n_variants);
    int value = call->record->flags & MULTIVERSE_FUNCTION_BRANCH ? odd : mode;

    for (size_t i = 0; i < call->record->n_variants; i++)
        if ((int64_t)g[v[i].first_guard].low <= value && value <= (int64_t)g[v[i].first_guard].high)
            return (const unsigned char *)&v[i].body + v[i].body +
                   call->site.object->distance();
    return NULL;
}

/* mov $10 + mode,%eax;  lea (%rdi,%rdi,2 or 4),%eax;  addl $1,(%rdi);  a NOP, or ret for a jump */
static int is_body(const unsigned char *at, void *callee)
{
    while (*at == 0x3e)
        at++;
    if (callee != (void *)mixed && callee != (void *)bump)
        return at[0] == 0xb8 && at[1] == 10 + mode;
    if (callee == (void *)mixed)
        return mode != 1 && !memcmp(at, mode ? "\x8d\x04\xbf" : "\x8d\x04\x7f", 3);
    if (callee == (void *)bump && mode == 1)
        return !memcmp(at, "\x83\x07\x01", 3);
    return callee == (void *)bump &&
           (!memcmp(at, "\x0f\x1f\x44\0", 4) || !memcmp(at, "\x66\x0f\x1f\x44", 4) ||
            !memcmp(at, "\xc3\xcc\xcc\xcc", 4));
}

/* Is the original site covered by the jump to moved code? */
static int is_shadowed(const struct site *site)
{
    for (const unsigned char *at = site->original - 4; site->moved && at < site->original + 5; at++)
        if (*at == 0xe9 && target(at) == at + (site->moved - site->original))
            return 1;
    return 0;
}

/* The value of the mode, which is every byte of it + 1, at the end of a mov. */
static int is_immediate(const unsigned char *at, size_t width)
{
    static const unsigned char value[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    unsigned char held[8];
    size_t prefixes = 0;

    while (at[prefixes] == 0x3e)
        prefixes++;
    prefixes += (at[prefixes] & 0xf0) == 0x40;
    for (size_t i = 0; i < width; i++)
        held[i] = (unsigned char)(at[prefixes + 1 + i] - mode);
    return (at[prefixes] & 0xf8) == 0xb8 && !memcmp(held, value, width);
}

static void look_at(const struct site *site, const unsigned char *at, const unsigned char *active)
{
    if (site->callee == &wide || site->callee == &narrow) {
        if (!is_immediate(at, site->callee == &wide ? 8 : 4))
            fail(site, "the constant is not in the code");
        reads++;
        return;
    }
    if (target(at) == active)
        direct++;
    else if (is_body(at, site->callee))
        bodies++;
    else
        fail(site, at == site->moved ? "its moved code leads elsewhere" : "it leads elsewhere");
}

/* The moved one to the moved arm, which may be what follows; the original to the same. */
static void look_at_inline_calls(void)
{
    for (const struct inline_call *c = inline_calls; c < inline_calls + n_inline; c++) {
        const unsigned char *arm = arm_of(c), *moved = c->site.moved;

        int branch = c->record->flags & MULTIVERSE_FUNCTION_BRANCH ? 1 : 0, behind = arm == moved + 5 + branch;

        if (behind ? memcmp(moved, &"\x66\x0f\x1f\x44\0"[!branch], 5) != 0 : target(moved) != arm)
            fail(&c->site, "an inline call in moved code leads elsewhere");
        nops += behind;
        branches += (unsigned)branch;
        if (!is_shadowed(&c->site) && target(c->site.original) != arm)
            fail(&c->site, "an original inline call leads elsewhere");
    }
}

static void look_at_sites(void)
{
    for (const struct site *s = sites; s < sites + n_sites; s++) {
        const struct multiverse_info_fn *info = multiverse_info_fn(s->callee);
        const unsigned char *active;

        if (!info || !info->active)
            fail(s, "its function is not bound");
        active = (const unsigned char *)info->active +
                 (strstr(info->name, "_quick") ? s->object->distance() : oneof_distance());
        if (s->moved)
            look_at(s, s->moved, active);
        if (is_shadowed(s))
            shadowed++;
        else
            look_at(s, s->original, active);
    }
}

static void look_at_entry(int (*function)(void), int is_bound)
{
    const unsigned char *pad = (const unsigned char *)function, *moved, *active;

    if (!memcmp(pad, "\xf3\x0f\x1e\xfa", 4))
        pad += 4;
    moved = pad + oneof_distance();
    active = multiverse_info_fn((void *)function)->active;
    if (target(pad) != moved)
        fail(NULL, "an original entry is not the jump to its moved code");
    if (!memcmp(moved, "\x0f\x1f\x40\0", 4)) /* aligns the jump behind endbr64 */
        moved += 4;
    if (is_bound ? target(moved) != active + oneof_distance()
                 : memcmp(moved, "\x0f\x1f\x44\0\0", 5) != 0)
        fail(NULL, "an entry in moved code is wrong");
}

static void look_at_bytes(void)
{
    for (const struct site *s = sites; s < sites + n_sites; s++)
        if ((s->moved && memcmp(s->moved, s->moved_was, 10)) || memcmp(s->original, s->original_was, 10))
            fail(s, "a revert left something");
    for (const struct inline_call *c = inline_calls; c < inline_calls + n_inline; c++)
        if (memcmp(c->site.moved, c->site.moved_was, 10) || memcmp(c->site.original, c->site.original_was, 10))
            fail(&c->site, "a revert left something");
}

static __attribute__((noinline)) void set(int to)
{
    mode = to;
    odd = to & 1;
    wide = 0x0101010101010101 * (unsigned)(to + 1);
    narrow = 0x01010101 * (unsigned)(to + 1);
}

int main(void)
{
    static int (*const hooks[])(void) = {hook_0, hook_1, hook_2};
    int (*volatile pointer)(void) = value;
    int now;

    if (multiverse_revert() < 0)
        fail(NULL, multiverse_error());
    read_sites();
    read_inline_calls();
    for (int i = 0; i < 6; i++) {
        set(now = i % MODES);
        hook = hooks[mode];
        if (multiverse_commit() != 10 || *multiverse_report())
            fail(NULL, multiverse_report());
        look_at_sites();
        look_at_inline_calls();
        look_at_entry(value, 1);
        set((now + 1) % MODES);
        if (pointer() != 10 + now || other_value() != now || oneof_mixed() != now ||
            program_bump() != (now == 1) || other_hook() != now ||
            program_inline() != 10 + now || program_odd() != 30 + (now & 1) || oneof_inline() != 10 + now || other_inline() != 10 + now ||
            other_wide() != now || oneof_narrow() != now || program_wide() != now ||
            stress_straddling()->call() != 10 + now)
            fail(NULL, "a call ran with another mode");
        if (multiverse_revert() != 10)
            fail(NULL, multiverse_error());
        look_at_bytes();
        look_at_entry(value, 0);
        if (pointer() != 10 + mode || other_value() != mode || program_wide() != mode ||
            other_narrow() != mode || other_inline() != 10 + mode || program_odd() != 30 + (mode & 1))
            fail(NULL, "a call after a revert ran with another mode");
    }
    printf("%zu sites, %u direct, %u bodies, %u reads, %u shadowed, %zu inline, %u NOPs\n", n_sites, direct, bodies, reads, shadowed,
           n_inline, nops);
    return n_sites < 24 || !direct || !bodies || !reads || n_inline < 3 || !nops || !branches;
}
