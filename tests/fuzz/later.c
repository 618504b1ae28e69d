/* SPDX-License-Identifier: MIT
 *
 * Lists of learnt objects of any bytes, with a checksum that fits: refused with a sentence, or with
 * everything inside the bounds that later.h promises.
 */
#include "rimf/made_later.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int so)
{
    if (!so)
        abort();
}

static void look(const struct later *l)
{
    const struct later_header *h = l->header;
    const struct manifest_text *t = l->texts;

    for (uint32_t i = 0; i < h->n_objects; i++) {
        const struct later_object *o = &l->objects[i];

        must(strlen(l->names + o->name) < h->names_size);
        must(o->length && !((o->linked | o->length | (uint64_t)o->distance) & 4095));
        must(o->copy_name < h->names_size && !strchr(l->names + o->copy_name, '/'));
        must(!o->n_texts || l->names[o->copy_name]);
        for (const struct manifest_text *last = t + o->n_texts; t < last; t++)
            must(t->object == i && t->size && !((t->linked | t->size | t->offset) & 4095) &&
                 t->offset + t->size < o->copy.size + 4096);
    }
    must(t == l->texts + h->n_texts);
    for (uint32_t i = 0; i < h->n_words; i++)
        must(l->words[i].object < h->n_start + h->n_objects &&
             l->words[i].to_object < h->n_start + h->n_objects && !(l->words[i].linked & 7));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = aligned_alloc(8, (size + 8) & ~7ul);
    const char *why = NULL;
    struct later l;

    memcpy(bytes, data, size);
    made_later_seal(bytes, size);
    if (later_open(&l, bytes, size, &why))
        must(why != NULL);
    else
        look(&l);
    free(bytes);
    return 0;
}
