/* SPDX-License-Identifier: MIT
 *
 * Lists of learnt objects of any bytes, with a checksum that fits: refused with a sentence, or with
 * everything inside the bounds that later.h promises.
 */
#include "../rimf/store/made_later.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int so)
{
    if (!so)
        abort();
}

static void look_at_code(const struct later *l, const struct later_code *code)
{
    const struct later_table *table = &l->header->table;

    must(code->name < l->header->names_size && !strchr(l->names + code->name, '/'));
    if (!l->names[code->name])
        return;
    must(l->names[table->name] && code->code && code->code < code->size);
    must(code->at >= table->code && code->at + code->size <= table->code_end);
    must(code->frames >= table->frames && code->frames + code->frames_size <= table->frames_end);
    must(!((code->offset | code->frames) & 4095));
    must(code->file.size > UINT64_MAX - 4096 || /* there is no such file */
         code->offset + code->size + code->frames_size < code->file.size + 4096);
}

static void look(const struct later *l)
{
    const struct later_header *h = l->header;
    const struct frozen_text *t = l->texts;
    const struct analysis_home *home = l->homes;

    must(strlen(l->names + h->table.name) < h->names_size && h->table.n_start <= h->table.n);
    for (uint32_t i = 0; i < h->n_objects; i++) {
        const struct later_object *o = &l->objects[i];

        must(strlen(l->names + o->name) < h->names_size);
        must(o->length && !((o->linked | o->length | (uint64_t)o->distance) & 4095));
        must(o->copy_name < h->names_size && !strchr(l->names + o->copy_name, '/'));
        must(!o->n_texts || l->names[o->copy_name]);
        look_at_code(l, &o->code);
        for (const struct frozen_text *last = t + o->n_texts; t < last; t++)
            must(t->object == i && t->size && !((t->linked | t->size | t->offset) & 4095) &&
                 t->offset + t->size < o->copy.size + 4096);
        for (const struct analysis_home *last = home + o->code.n_homes; home < last; home++)
            must((uint64_t)home->start + home->size <= o->code.code);
    }
    must(t == l->texts + h->n_texts && home == l->homes + h->n_homes);
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
