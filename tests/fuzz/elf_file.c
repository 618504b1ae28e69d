/* SPDX-License-Identifier: MIT
 *
 * elf_file.c: fuzzes what the tools do with files of others: reading descriptors,
 * showing them, changing the interpreter, restoring a file from its record.
 */
#include "tools/interp/interp.h"
#include "tools/show/show.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(struct elf_file *f)
{
    static FILE *nowhere;
    struct descriptors d;
    struct json j = {0};

    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    j.to = nowhere;
    if (!descriptors_read(f, &d))
        show_json(&j, &(struct show_view){.f = f, .d = &d, .code = 1});
    descriptors_free(&d);
}

static void place(const struct elf_file *f)
{
    unsigned char *copy = malloc(f->size ? f->size : 1);

    memcpy(copy, f->bytes, f->size);
    interp_place(f, "/a", copy);
    interp_place(f, "/a/name/that/is/longer/than/what/is/there", copy);
    interp_payload(f);
    free(copy);
}

/* Whatever the file is, a record must bring it back. */
static void round_trip(const struct elf_file *f)
{
    struct bytes now = {malloc(f->size), f->size}, before = {0};
    struct elf_file file = {.path = ""};
    const char *why;

    memcpy(now.at, f->bytes, f->size);
    if (f->size)
        now.at[f->size / 2] ^= 1;
    record_append(f, &now);
    file.bytes = now.at;
    file.size = now.size;
    if (record_restore(&file, &before, &why) || before.size != f->size ||
        memcmp(before.at, f->bytes, f->size))
        abort();
    free(before.at);
    free(now.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *bytes = malloc(size ? size : 1);
    struct bytes before = {0};
    struct elf_file f;
    const char *why;

    memcpy(bytes, data, size);
    if (!elf_file_parse(&f, "", bytes, size)) {
        show(&f);
        for (size_t i = 0; i < f.n_functions && i < 64; i++)
            elf_symbol_version(&f, &f.functions[i]);
        place(&f);
        round_trip(&f);
    }
    if (!record_restore(&f, &before, &why))
        free(before.at);
    elf_file_close(&f);
    return 0;
}
