/* SPDX-License-Identifier: MIT
 *
 * MVLD_TUNABLES of any bytes: entries, or a sentence that names the variable.
 */
#include "config_support.h"

#include "rimf/base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char sentence[128], *text = malloc(size + 1);
    struct why why = {sentence, sizeof(sentence)};
    struct rimf_heap heap = {0};
    struct config config = {0};

    memcpy(text, data, size);
    text[size] = 0;
    if (config_tunables(&heap, text, &config, &why)) {
        if (!rimf_after(sentence, "MVLD_TUNABLES: "))
            abort();
    } else {
        for (const struct config_entry *e = config.entries; e; e = e->next)
            if (config_find(&config, e->section, e->key) != e || !e->text || !*e->key)
                abort();
        settle(&heap, &config, &why);
    }
    rimf_heap_destroy(&heap);
    free(text);
    return 0;
}
