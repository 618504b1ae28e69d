/* SPDX-License-Identifier: MIT
 *
 * Tables of ready code of any bytes, with a checksum that fits: refused with a sentence, or with
 * everything inside the bounds that ready.h promises.
 */
#include "../rimf/store/made_ready.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int so)
{
    if (!so)
        abort();
}

static int is_code(const struct ready *r, uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < r->header->n_texts; i++)
        if (start >= r->texts[i].linked && end <= r->texts[i].linked + r->texts[i].size)
            return 1;
    return 0;
}

static void look(const struct ready *r)
{
    const struct ready_header *h = r->header;
    uint64_t end = 0;

    must(strlen(r->name) + strlen(r->program) + 2 <= h->name_size && h->reach < READY_REACHES);
    for (uint32_t i = 0; i < h->n_texts; i++) {
        const struct frozen_text *t = &r->texts[i];

        must(t->size && !((t->linked | t->size | t->offset) & 4095));
        must(t->linked >= end && t->offset + t->size < h->file.size + 4096);
        end = t->linked + t->size;
    }
    for (uint32_t i = 0; i < h->n_slots; i++)
        must(!(r->slots[i].slot & 7) && ready_calls(&r->slots[i]) &&
             (h->reach == READY_ALL || (!(r->slots[i].calls & READY_LEFT) &&
                                        is_code(r, (uint64_t)r->slots[i].leads,
                                                (uint64_t)r->slots[i].leads + 1))));
    end = 0;
    for (uint32_t i = 0; i < h->n_rest; i++) {
        must(r->rest[i].address >= end);
        end = (uint64_t)r->rest[i].address + analysis_call_length(&r->rest[i]);
        must(is_code(r, r->rest[i].address, end));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = aligned_alloc(8, (size + 8) & ~7ul);
    const char *why = NULL;
    struct ready r;

    memcpy(bytes, data, size);
    made_ready_seal(bytes, size);
    if (ready_open(&r, bytes, size, &why))
        must(why != NULL);
    else
        look(&r);
    free(bytes);
    return 0;
}
