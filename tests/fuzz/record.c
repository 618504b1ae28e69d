/* SPDX-License-Identifier: MIT
 *
 * The record that `mvld set-interp` leaves behind a file (interp/record.c), with steps
 * and numbers of any kind in it and right sums around them, which a fuzzer would not hit
 * upon: nothing outside the file is read, and what comes back is as long as was said.
 *
 * The input: how long the file was (4 bytes), how long it is (2), and its bytes with
 * the steps behind them.
 */
#include "tools/interp/record.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trailer t = {0};
    struct elf_file now = {.path = "file"};
    struct bytes before = {NULL, 0}, again;
    const char *why = NULL;
    uint32_t length;
    uint16_t kept;
    int result;

    if (size < sizeof length + sizeof kept)
        return 0;
    memcpy(&length, data, sizeof length);
    memcpy(&kept, data + sizeof length, sizeof kept);
    data += sizeof length + sizeof kept;
    size -= sizeof length + sizeof kept;
    t.before_size = length;
    t.now_size = kept;
    t.now_sum = bytes_sum(data, kept < size ? kept : size);
    t.steps_size = size - kept;
    memcpy(t.magic, magic, sizeof magic);
    now.size = size + sizeof t;
    now.bytes = malloc(now.size);
    memcpy(now.bytes, data, size);
    /* What the steps make is not known before they are replayed: so replay them here. */
    if (kept <= size && length <= 2 * now.size) {
        again = (struct bytes){calloc(1, length + 1), length};
        if (!replay(&now, &t, &again))
            t.before_sum = bytes_sum(again.at, again.size);
        free(again.at);
    }
    memcpy(now.bytes + size, &t, sizeof t);
    result = record_restore(&now, &before, &why);
    if (result < 0 ? !why : result == 0 ? before.size != length : 1)
        abort();
    if (!result)
        free(before.at);
    free(now.bytes);
    return 0;
}
