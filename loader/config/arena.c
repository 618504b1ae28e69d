/* SPDX-License-Identifier: MIT */
#include "loader/config/arena.h"
#include "rimf/base/base.h"

#include <sys/mman.h>

#define CHUNK (64 * 1024UL)

struct arena_chunk {
    struct arena_chunk *next;
    size_t size, used; /* with this header */
};

static struct arena_chunk *add_chunk(struct arena *a, size_t size)
{
    size_t whole = size + sizeof(struct arena_chunk) + 16;

    if (whole < size)
        return NULL;
    if (!a->chunks && whole <= a->lent_size) {
        a->chunks = a->lent;
        *a->chunks = (struct arena_chunk){NULL, a->lent_size, sizeof(struct arena_chunk)};
        return a->chunks;
    }
    whole = whole < CHUNK ? CHUNK : rimf_page_up(whole);
    long at = sys_mmap(a->sys, 0, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
    if (sys_failed(at))
        return NULL;
    struct arena_chunk *chunk = (struct arena_chunk *)at;
    *chunk = (struct arena_chunk){a->chunks, whole, sizeof(*chunk)};
    a->chunks = chunk;
    return chunk;
}

void *arena_alloc(struct arena *a, size_t size)
{
    struct arena_chunk *chunk = a->chunks;

    if (size > SIZE_MAX / 2)
        return NULL;
    size_t at = chunk ? (chunk->used + 15) & ~15UL : 0;
    if (!chunk || at > chunk->size || chunk->size - at < size) {
        chunk = add_chunk(a, size);
        if (!chunk)
            return NULL;
        at = (chunk->used + 15) & ~15UL;
    }
    chunk->used = at + size;
    return (char *)chunk + at;
}

char *arena_copy(struct arena *a, const char *text, size_t length)
{
    char *to = arena_alloc(a, length + 1);

    if (to)
        memcpy(to, text, length);
    return to;
}

static void free_until(struct arena *a, const struct arena_chunk *last)
{
    while (a->chunks != last) {
        struct arena_chunk *next = a->chunks->next;
        if (a->chunks == a->lent)
            memset(a->lent, 0, a->chunks->used);
        else
            sys_munmap(a->sys, (uintptr_t)a->chunks, a->chunks->size);
        a->chunks = next;
    }
}

void arena_free(struct arena *a)
{
    free_until(a, NULL);
}

struct arena_mark arena_mark(const struct arena *a)
{
    return (struct arena_mark){a->chunks, a->chunks ? a->chunks->used : 0};
}

/* The chunk of a mark of an empty arena is kept for the next allocation. */
void arena_release(struct arena *a, struct arena_mark mark)
{
    if (!mark.chunk && a->chunks && !a->chunks->next)
        mark = (struct arena_mark){a->chunks, sizeof(struct arena_chunk)};
    free_until(a, mark.chunk);
    if (!mark.chunk)
        return;
    memset((char *)mark.chunk + mark.used, 0, mark.chunk->used - mark.used);
    mark.chunk->used = mark.used;
}
