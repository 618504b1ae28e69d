/* SPDX-License-Identifier: MIT
 *
 * What an unwinder asks: _dl_find_object, dl_iterate_phdr, the table of .eh_frame_hdr, of an
 * address where code runs and of a function's own.  Each must lead to an entry that describes it.
 *
 * A failure means that exceptions end the process, and backtraces stop in the middle.
 *
 * needs: 2.35
 * build: libunwinder.so -DLIBRARY
 * build: libopened.so -DLIBRARY
 * build: program libunwinder.so -rdynamic
 * run:
 */
#include "identity.h"

#include <dlfcn.h>
#include <unwind.h>

struct table { /* .eh_frame_hdr as linkers write it */
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t count;
    struct { int32_t start, entry; } rows[];
};

/* The entry of the table that covers `pc`: where its code starts and ends, or 0. */
static int described(const struct table *t, uintptr_t pc, uintptr_t *start)
{
    uint32_t low = 0, high = t->count, i;
    const int32_t *entry;

    if (t->version != 1 || t->frame_encoding != 0x1b || t->count_encoding != 3 ||
        t->table_encoding != 0x3b)
        return -1;
    while (high - low > 1) {
        i = (low + high) / 2;
        *((uintptr_t)t + t->rows[i].start <= pc ? &low : &high) = i;
    }
    *start = (uintptr_t)t + t->rows[low].start;
    entry = (const int32_t *)((uintptr_t)t + t->rows[low].entry);
    return (uintptr_t)(entry + 2) + entry[2] == *start && pc >= *start &&
           pc < *start + (uint32_t)entry[3];
}

struct asked {
    uintptr_t pc;
    const struct table *table;
    int n;
};

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct asked *asked = data;
    const struct table *table = NULL;
    int here = 0;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        here |= p->p_type == PT_LOAD && asked->pc - info->dlpi_addr - p->p_vaddr < p->p_memsz;
        if (p->p_type == PT_GNU_EH_FRAME)
            table = (const struct table *)(info->dlpi_addr + p->p_vaddr);
    }
    if (here) {
        asked->table = table;
        asked->n++;
    }
    return 0;
}

static void ask(const char *what, const void *pc)
{
    struct asked asked = {.pc = (uintptr_t)pc};
    struct dl_find_object found = {0};
    uintptr_t start = 0;
    int n, covered;

    n = _dl_find_object((void *)pc, &found);
    dl_iterate_phdr(look, &asked);
    covered = asked.table ? described(asked.table, (uintptr_t)pc, &start) : -2;
    printf("%s: %d, %d object, agree %d, described %d\n", what, n, asked.n,
           (const void *)asked.table == found.dlfo_eh_frame && found.dlfo_map_start <= pc &&
               pc < found.dlfo_map_end, covered);
}

#ifdef LIBRARY
void library(void (*)(const char *, const void *));
void library(void (*look_at)(const char *, const void *))
{
    RUNS;
    ask("library", identity_here());
    look_at("caller of the program", identity_here());
}
#else
void library(void (*)(const char *, const void *));

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *data)
{
    uintptr_t pc = _Unwind_GetIP(context), start = _Unwind_GetRegionStart(context);

    if (++*(int *)data < 4)
        ask("frame", (void *)(pc - 1));
    if (*(int *)data < 3)
        printf("starts before: %d\n", start < pc && pc - start < 4096);
    return *(int *)data < 10 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static int callback(const void *a, const void *b)
{
    int n = 0;

    RUNS;
    (void)a;
    (void)b;
    _Unwind_Backtrace(step, &n);
    printf("%s\n", n >= 4 ? "frames" : "too few frames");
    return 0;
}

int main(void)
{
    int one[1] = {0};
    void *h = dlopen("libopened.so", RTLD_NOW);

    RUNS;
    ask("main", (void *)main);
    ask("in main", identity_here());
    library(ask);
    ((void (*)(void (*)(const char *, const void *)))dlsym(h, "library"))(ask);
    ask("qsort", (void *)qsort);
    bsearch("", one, 1, sizeof(int), callback);
    return 0;
}
#endif
