/* SPDX-License-Identifier: MIT
 *
 * Manifests of any bytes, with a checksum that fits: refused with a sentence, or
 * with everything inside the bounds that store/manifest.h promises.
 */
#include "../rimf/store/made_manifest.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int so)
{
    if (!so)
        abort();
}

static void look_at_objects(const struct manifest *f)
{
    const struct manifest_header *h = f->header;
    uint64_t words = 0;

    for (uint32_t i = 0; i < h->n_objects; i++) {
        const struct manifest_object *o = &f->objects[i];

        must(strlen(f->names + o->name) < h->names_size);
        must(o->overlay_name < h->names_size && !strchr(f->names + o->overlay_name, '/'));
        must(!(o->flags & MANIFEST_UNPLACED) || !f->names[o->overlay_name]);
        must(!((o->first | o->length | (uint64_t)o->distance) & 4095));
        words += o->n_words;
    }
    must(words <= h->n_words && (!h->n_base || (!h->n_fragments && !h->n_relocations && !h->n_kept)));
}

static void look_at_texts(const struct manifest *f)
{
    const struct manifest_header *h = f->header;
    uint64_t end = 0;
    uint32_t n;

    for (uint32_t i = 0; i < h->n_texts; i++) {
        const struct manifest_text *t = &f->texts[i];
        const struct manifest_object *o;

        must(t->object >= h->n_base && t->object < h->n_base + h->n_objects);
        o = manifest_object(f, t->object);
        must(f->names[o->overlay_name] && t->size && !((t->linked | t->size | t->offset) & 4095));
        must(t->offset + t->size < o->overlay.size + 4096);
        must(((uint64_t)t->object << 40 | t->linked) >= end);
        end = ((uint64_t)t->object << 40 | t->linked) + t->size;
        must(manifest_texts_of(f, t->object, &n) <= t && manifest_texts_of(f, t->object, &n) + n > t);
    }
}

static void look(const struct manifest *f)
{
    const struct manifest_header *h = f->header;

    must(h->n_passes <= MANIFEST_PASSES_MAX && strlen(f->names + h->launch_key) < h->names_size);
    for (uint32_t i = 0; i < h->n_passes; i++)
        must(h->passes[i].name < h->names_size && h->passes[i].library < h->names_size);
    must(h->n_reads <= MANIFEST_READS_MAX);
    for (uint32_t i = 0; i < h->n_reads; i++)
        must(strlen(f->names + h->reads[i].name) < h->names_size);
    look_at_objects(f);
    look_at_texts(f);
    for (uint32_t i = 0; i < h->n_relocations; i++) {
        const struct manifest_relocations *r = &f->relocations[i];

        must(r->object < h->n_objects && r->size && !((r->linked | r->size | r->offset) & 4095));
        must(r->offset + r->size <= h->tables.size);
    }
    for (uint32_t i = 0; i < h->n_shifts; i++)
        must(h->n_relocations && f->shifts[i].to_object < h->n_objects && !(f->shifts[i].at & 7) &&
             f->relocations->offset + f->shifts[i].at < h->tables.size);
    must(!f->region == !h->n_fragments);
    for (uint32_t i = 0; i < h->n_fragments; i++)
        must(f->fragments[i].sorted < h->n_fragments);
    for (uint32_t i = 0; i < h->n_fragments; i++) {
        const struct manifest_fragment *c = &f->fragments[i];

        must(c->object < h->n_objects && c->code <= c->size);
        must(c->at >= f->region->code && c->at + c->size <= f->region->code + f->region->code_size);
    }
    for (uint32_t i = 0, original = 0; i < h->n_fragments; original += f->fragments[i++].n_fixed)
        for (uint32_t k = 0; k < f->fragments[i].n_fixed; k++)
            must(original + k < h->n_fixed &&
                 (uint64_t)f->fixed[original + k].start + f->fixed[original + k].size <= f->fragments[i].code);
    for (uint32_t i = 0; i < h->n_pointers; i++)
        must(f->pointers[i].object < h->n_objects && f->pointers[i].fragment < h->n_fragments &&
             f->pointers[i].offset < f->fragments[f->pointers[i].fragment].code);
    for (uint32_t i = 0; i < h->n_kept; i++)
        must(f->region && f->kept[i].object < h->n_objects && f->kept[i].number < MANIFEST_KEPT_MAX);
    for (int i = 0; f->region && i < MANIFEST_PIECES; i++) {
        const struct manifest_piece *p = &f->region->pieces[i];

        must(p->size && p->offset + p->size <= h->tables.size);
        must(!((p->linked | p->size | p->offset) & 4095));
    }
    for (uint32_t i = 0; i < h->n_words; i++)
        must(f->words[i].object < h->n_base + h->n_objects && f->words[i].to_object < h->n_base + h->n_objects &&
             !(f->words[i].linked & 7));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = aligned_alloc(8, (size + 8) & ~7ul);
    const char *why = NULL;
    struct manifest f;

    memcpy(bytes, data, size);
    made_manifest_seal(bytes, size);
    if (manifest_open(&f, bytes, size, &why))
        must(why != NULL);
    else
        look(&f);
    free(bytes);
    return 0;
}
