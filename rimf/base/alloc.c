/* SPDX-License-Identifier: MIT
 *
 * rimf/base/alloc.c: the heap.
 *
 * Each block has 16 bytes in front:
 *
 *     +--------+-------+---------------------------+
 *     | class  | state | payload, 16-byte aligned  |
 *     +--------+-------+---------------------------+
 *
 * `state` differs for live and free blocks, so a second release of the same pointer is detected.
 * The links of a free block, and of chunks and big maps in their lists, are at the start of the
 * payload.
 */
#include "rimf/base/alloc.h"

#include "rimf/base/base.h"

#include <sys/mman.h> /* numbers only */

#define CHUNK (64u * 1024)
#define CLASS_BIG (~(uint64_t)0)
#define STATE_LIVE 0x6d766c642d6c6976u
#define STATE_FREE 0x6d766c642d667265u

struct rimf_block {
    uint64_t class; /* index of the size class, or CLASS_BIG */
    uint64_t state;
};

/* In front of a chunk and of a big map. */
struct map {
    struct map *next, *previous;
    size_t size;
    uint64_t unused;
};

_Static_assert(sizeof(struct rimf_block) == 16, "payload alignment");
_Static_assert(sizeof(struct map) == 32, "payload alignment");

/* 32, 48, 64, 96, 128, … 32768: two classes a power of two, header included. */
static size_t class_size(unsigned class)
{
    return (size_t)(class & 1 ? 48 : 32) << (class / 2);
}

static unsigned class_of(size_t size)
{
    unsigned class = 0;

    while (class_size(class) < size)
        class++;
    return class;
}

static struct rimf_block **link_of(struct rimf_block *block)
{
    return (struct rimf_block **)(block + 1);
}

void rimf_heap_set_alone(struct rimf_heap *heap, int alone)
{
    heap->alone = alone;
}

int rimf_heap_enter(struct rimf_heap *heap)
{
    int result = heap->alone ? 0 : rimf_lock_acquire(heap->sys, &heap->lock);

    if (result == RIMF_LOCK_INHERITED) {
        /* The fork happened during an operation: a list may be broken; only free blocks can be
         * lost. */
        memset(heap->free, 0, sizeof heap->free);
        heap->fresh = heap->fresh_end = 0;
    }
    return result < 0 ? result : 0;
}

void rimf_heap_leave(struct rimf_heap *heap)
{
    if (!heap->alone)
        rimf_lock_release(heap->sys, &heap->lock);
}

static struct map *map_pages(struct rimf_heap *heap, size_t size, struct rimf_block **list)
{
    long at = sys_mmap(heap->sys, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
    struct map *map = (struct map *)at;

    if (sys_failed(at))
        return NULL;
    map->size = size;
    map->next = (struct map *)*list;
    if (map->next)
        map->next->previous = map;
    *list = (struct rimf_block *)map;
    heap->mapped += size;
    return map;
}

static struct rimf_block *new_big(struct rimf_heap *heap, size_t size)
{
    size_t whole = rimf_page_up(size + sizeof(struct map) + sizeof(struct rimf_block));
    struct map *map = whole > size ? map_pages(heap, whole, &heap->big) : NULL;
    struct rimf_block *block;

    if (!map)
        return NULL;
    block = (struct rimf_block *)(map + 1);
    block->class = CLASS_BIG;
    return block;
}

static struct rimf_block *new_small(struct rimf_heap *heap, unsigned class)
{
    struct rimf_block *block = heap->free[class];
    size_t size = class_size(class);

    if (block) {
        heap->free[class] = *link_of(block);
        memset(block + 1, 0, size - sizeof *block);
        return block;
    }
    if (heap->fresh_end - heap->fresh < size) {
        struct map *map = map_pages(heap, CHUNK, &heap->chunks);

        if (!map)
            return NULL;
        heap->fresh = (uintptr_t)(map + 1);
        heap->fresh_end = (uintptr_t)map + CHUNK;
    }
    block = (struct rimf_block *)heap->fresh;
    heap->fresh += size;
    block->class = class;
    return block;
}

void rimf_heap_init(struct rimf_heap *heap, const struct rimf_sys *sys)
{
    memset(heap, 0, sizeof *heap);
    heap->sys = sys;
}

void rimf_heap_seed(struct rimf_heap *heap, void *memory, size_t size)
{
    heap->fresh = (uintptr_t)memory;
    heap->fresh_end = heap->fresh + size;
}

static void unmap_all(struct rimf_heap *heap, struct rimf_block *list)
{
    struct map *map = (struct map *)list, *next;

    for (; map; map = next) {
        next = map->next;
        sys_munmap(heap->sys, (uintptr_t)map, map->size);
    }
}

void rimf_heap_destroy(struct rimf_heap *heap)
{
    struct rimf_heap copy = *heap; /* the heap itself may be in a chunk */

    unmap_all(&copy, copy.big);
    unmap_all(&copy, copy.chunks);
}

void *rimf_heap_take(struct rimf_heap *heap, size_t size)
{
    struct rimf_block *block;

    if (size > SIZE_MAX / 2)
        return NULL;
    if (size > RIMF_HEAP_SMALL)
        block = new_big(heap, size);
    else
        block = new_small(heap, class_of(size + sizeof *block));
    if (!block)
        return NULL;
    block->state = STATE_LIVE;
    return block + 1;
}

void *rimf_heap_alloc(struct rimf_heap *heap, size_t size)
{
    void *payload;

    if (rimf_heap_enter(heap))
        return NULL;
    payload = rimf_heap_take(heap, size);
    rimf_heap_leave(heap);
    return payload;
}

static void release_big(struct rimf_heap *heap, struct rimf_block *block)
{
    struct map *map = (struct map *)block - 1;

    if (map->next)
        map->next->previous = map->previous;
    if (map->previous)
        map->previous->next = map->next;
    else
        heap->big = (struct rimf_block *)map->next;
    heap->mapped -= map->size;
    sys_munmap(heap->sys, (uintptr_t)map, map->size);
}

void rimf_heap_give(struct rimf_heap *heap, void *payload)
{
    struct rimf_block *block;

    if (!payload)
        return;
    block = (struct rimf_block *)payload - 1;
    if (block->state != STATE_LIVE)
        return;
    if (block->class == CLASS_BIG) {
        release_big(heap, block);
    } else if (block->class < RIMF_HEAP_CLASSES) {
        block->state = STATE_FREE;
        *link_of(block) = heap->free[block->class];
        heap->free[block->class] = block;
    }
}

void rimf_heap_release(struct rimf_heap *heap, void *payload)
{
    if (!payload || rimf_heap_enter(heap))
        return;
    rimf_heap_give(heap, payload);
    rimf_heap_leave(heap);
}

char *rimf_heap_copy(struct rimf_heap *heap, const char *text)
{
    return rimf_heap_copy_part(heap, text, rimf_strlen(text));
}

char *rimf_heap_copy_part(struct rimf_heap *heap, const char *text, size_t length)
{
    char *copy = rimf_heap_alloc(heap, length + 1);

    return copy ? memcpy(copy, text, length) : NULL;
}

void *rimf_heap_grow(struct rimf_heap *heap, void *array, size_t *room, size_t size, size_t first)
{
    size_t larger = array ? 2 * *room : first;
    void *more = rimf_heap_alloc(heap, larger * size);

    if (!more)
        return NULL;
    if (array)
        memcpy(more, array, *room * size);
    rimf_heap_release(heap, array);
    *room = larger;
    return more;
}
