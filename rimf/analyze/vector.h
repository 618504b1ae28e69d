/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/vector.h: growing arrays.  A failed allocation is recorded and leaves the array unchanged;
 * code that fills many checks once, at the end.
 */
#ifndef ANALYZE_VECTOR_H
#define ANALYZE_VECTOR_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct vector {
    void *at;
    size_t n, room;
    int failed;
};

static inline void vector_add(struct vector *v, const void *entry, size_t size)
{
    if (v->n == v->room) {
        size_t room = v->room ? v->room * 2 : 64;
        void *at = room > v->room && room < (size_t)-1 / size ? realloc(v->at, room * size) : NULL;

        if (!at) {
            v->failed = 1;
            return;
        }
        v->at = at;
        v->room = room;
    }
    memcpy((char *)v->at + v->n++ * size, entry, size);
}

/* VECTOR_ADD(&v, struct thing, .field = value …) */
#define VECTOR_ADD(v, type, ...) vector_add((v), &(type){__VA_ARGS__}, sizeof(type))

static inline void vector_free(struct vector *v)
{
    free(v->at);
    *v = (struct vector){0};
}

static inline void vectors_free(struct vector *all, size_t n)
{
    while (n--)
        vector_free(&all[n]);
}

static inline int vectors_failed(const struct vector *all, size_t n)
{
    while (n && !all[n - 1].failed)
        n--;
    return n != 0;
}

#endif
