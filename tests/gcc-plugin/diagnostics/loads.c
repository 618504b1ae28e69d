/* SPDX-License-Identifier: MIT
 *
 * A read of a constant that no commit can change is a warning, and so is one of a member that may be
 * any object's, and `inline` where no caller can have it.
 * not for: -flto
 */
#define MV __attribute__((multiverse))
#define K __attribute__((multiverse("constant")))
struct settings { int plain; MV int level; K int size; K long more; };
struct settings settings, table[4];
extern struct settings theirs;
K int count;
MV int sw;

int reads(void) { return settings.size + theirs.size + count; }
int writes(void)
{
    int before = count;                    /* warning: constant 'count' stays a load: the function writes it */
    count = 3;
    return before;
}
struct settings copies(void)
{
    return settings;                       /* warning: constant 'settings.size' stays a load: it reads a part */
}
int by_pointer(const struct settings *s)
{
    return s->size;                        /* warning: member 'size' stays a load: .* through a pointer */
}
int by_index(int i)
{
    return table[i].size                   /* warning: member 'size' stays a load: .* an element of an array */
           + table[i].plain;
}
int by_wish(void) { return *(volatile int *)&count + __atomic_load_n(&settings.more, __ATOMIC_ACQUIRE); }
int of_a_local_object(int x)
{
    struct settings own = {x, x, x, x};
    __asm__ volatile("" : "+m"(own));
    return own.size;
}
int unattributed(const struct settings *s) { return s->plain + s->level; } /* no variation point */
MV int point(const struct settings *s)
{
    return s->level > 3 ? sw : 2;          /* warning: member 'level' stays a load: .* through a pointer */
}
__attribute__((multiverse("bind", "sw"))) int bound(const struct settings *s) { return s->level > 3 ? sw : 2; }
__attribute__((multiverse("inline"))) int elsewhere(int);  /* warning: 'elsewhere' .* no body */
__attribute__((multiverse("inline"))) int unused(int);
__attribute__((multiverse("inline"))) static inline int here(int x) { return sw ? x : -x; }
int calls(int x) { return elsewhere(x) + here(x); }
