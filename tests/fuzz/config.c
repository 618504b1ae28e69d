/* SPDX-License-Identifier: MIT
 *
 * Configuration files of any bytes.  Each ends in entries or in a sentence that
 * begins with the file's name; a value that was read reads back the same after it
 * is printed.
 */
#include "config_support.h"

#include "rimf/base/base.h"

static void reads_back(const char *text)
{
    size_t size = 2 * strlen(text) + 3;
    char *printed = malloc(size + 4), *again = malloc(size + 4);
    const char *phrase;
    struct ini_item item;
    struct ini ini;

    memcpy(printed, "k = ", 4);
    ini_write(printed + 4, size, text, 0);
    ini_begin(&ini, printed, strlen(printed), 2);
    /* Longer than a line by its quotes alone: that is not read, and not written. */
    if (strlen(printed) <= INI_LINE_MAX &&
        (ini_next(&ini, &item, &phrase) || item.kind != INI_KEY ||
         ini_text(item.value, again) < 0 || strcmp(again, text) != 0 || !ini_is(item.value, text)))
        abort();
    free(printed);
    free(again);
}

/* The bytes as what `mvld config` makes: ends, and with what is wrong in words. */
static void made(const struct pipeline_query *query, const char *data, size_t size)
{
    char sentence[128] = "";
    struct why why = {sentence, sizeof(sentence)};
    struct rimf_heap heap = {0};
    struct config_text text = {"FILE", data, size};
    struct config config = {0};
    int error = config_scan_made(query, &heap, &text, &config, &why);

    if (error && !*sentence)
        abort();
    rimf_heap_destroy(&heap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t id[] = {0xde, 0xad};
    struct pipeline_query query = {.program = "/bin/a", .name = "b", .build_id = id,
                                   .build_id_size = sizeof(id)};
    char sentence[128];
    struct why why = {sentence, sizeof(sentence)};
    struct rimf_heap heap = {0};
    struct config_text text = {"FILE", (const char *)data, size};
    struct config config = {0};
    int error = config_scan(&query, &heap, &text, &config, &why);

    if (error && !rimf_after(sentence, "FILE:"))
        abort();
    for (const struct config_entry *e = config.entries; e && !error; e = e->next) {
        if (config_find(&config, e->section, e->key) != e)
            abort();
        if (e->text)
            reads_back(e->text);
    }
    if (!error)
        settle(&heap, &config, &why);
    rimf_heap_destroy(&heap);
    made(&query, (const char *)data, size);
    return 0;
}
