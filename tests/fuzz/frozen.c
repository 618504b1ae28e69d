/* SPDX-License-Identifier: MIT
 *
 * Frozen images of any bytes, with a checksum that fits: refused with a sentence, or
 * with everything inside the bounds that frozen.h promises.
 */
#include "../rimf/store/made_frozen.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int so)
{
    if (!so)
        abort();
}

static void look(const struct frozen *f)
{
    const struct frozen_header *h = f->header;

    must(h->n_passes <= FROZEN_PASSES_MAX && strlen(f->names + h->told) < h->names_size);
    for (uint32_t i = 0; i < h->n_passes; i++)
        must(h->passes[i].name < h->names_size && h->passes[i].library < h->names_size);
    must(h->n_reads <= FROZEN_READS_MAX);
    for (uint32_t i = 0; i < h->n_reads; i++)
        must(strlen(f->names + h->reads[i].name) < h->names_size);
    for (uint32_t i = 0; i < h->n_objects; i++) {
        must(strlen(f->names + f->objects[i].name) < h->names_size);
        must(!strchr(f->names + f->objects[i].copy_name, '/'));
        must(!(f->objects[i].flags & FROZEN_UNPLACED) || !f->names[f->objects[i].copy_name]);
    }
    for (uint32_t i = 0; i < h->n_texts; i++) {
        const struct frozen_text *t = &f->texts[i];

        must(t->object < h->n_objects && f->names[f->objects[t->object].copy_name]);
        must(t->size && !((t->linked | t->size | t->offset) & 4095));
        must(t->offset + t->size < f->objects[t->object].copy.size + 4096);
    }
    for (uint32_t i = 0; i < h->n_relocations; i++) {
        const struct frozen_relocations *r = &f->relocations[i];

        must(r->object < h->n_objects && r->size && !((r->linked | r->size | r->offset) & 4095));
        must(r->offset + r->size <= h->relocations.size);
    }
    for (uint32_t i = 0; i < h->n_shifts; i++)
        must(h->n_relocations && f->shifts[i].to_object < h->n_objects && !(f->shifts[i].at & 7) &&
             f->relocations->offset + f->shifts[i].at < h->relocations.size);
    must(!f->region == !h->n_copies);
    for (uint32_t i = 0; i < h->n_copies; i++)
        must(f->copies[i].sorted < h->n_copies);
    for (uint32_t i = 0; i < h->n_copies; i++) {
        const struct frozen_copy *c = &f->copies[i];

        must(c->object < h->n_objects && c->code <= c->size);
        must(c->at >= f->region->code && c->at + c->size <= f->region->code + f->region->code_size);
    }
    for (uint32_t i = 0, home = 0; i < h->n_copies; home += f->copies[i++].n_homes)
        for (uint32_t k = 0; k < f->copies[i].n_homes; k++)
            must(home + k < h->n_homes &&
                 (uint64_t)f->homes[home + k].start + f->homes[home + k].size <= f->copies[i].code);
    for (uint32_t i = 0; i < h->n_pointers; i++)
        must(f->pointers[i].object < h->n_objects && f->pointers[i].copy < h->n_copies &&
             f->pointers[i].offset < f->copies[f->pointers[i].copy].code);
    for (uint32_t i = 0; i < h->n_kept; i++)
        must(f->region && f->kept[i].object < h->n_objects && f->kept[i].number < FROZEN_KEPT_MAX);
    for (int i = 0; f->region && i < FROZEN_PIECES; i++) {
        const struct frozen_piece *p = &f->region->pieces[i];

        must(p->size && p->offset + p->size <= f->region->file.size);
        must(!((p->linked | p->size | p->offset) & 4095));
    }
    for (uint32_t i = 0; i < h->n_words; i++)
        must(f->words[i].object < h->n_objects && f->words[i].to_object < h->n_objects &&
             !(f->words[i].linked & 7));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = aligned_alloc(8, (size + 8) & ~7ul);
    const char *why = NULL;
    struct frozen f;

    memcpy(bytes, data, size);
    made_frozen_seal(bytes, size);
    if (frozen_open(&f, bytes, size, &why))
        must(why != NULL);
    else
        look(&f);
    free(bytes);
    return 0;
}
