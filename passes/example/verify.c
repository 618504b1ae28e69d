/* SPDX-License-Identifier: MIT
 *
 * verify.c: allows only listed files to be mapped into the program.  `b2sum -l 256 FILE` prints what to list:
 *     [verify]
 *     allow.libc = (64 digits)
 * With `strict` none of these either that has memory which is written and executed, or wants such a stack.
 */
#include <mvld/pass.h>

#include <elf.h> /* numbers and formats only */

static const struct mvld_option options[] = {
    {.name = "strict", .type = MVLD_OPTION_BOOL, .initial = "no", .help = "nothing may be written and executed"},
    {.name = "allow.", .type = MVLD_OPTION_PREFIX, .help = "the BLAKE2b-256 of a file, in hexadecimal digits"},
    {.name = NULL},
};
static const uint64_t iv[8] = { /* RFC 7693, 2.6 and 2.7 */
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
static const uint64_t sigma[10] = { /* the first word is the lowest digit */
    0xfedcba9876543210, 0x357b20c16df984ae, 0x491763eadf250c8b, 0x8f04a562ebcd1397, 0xd386cb1efa427509,
    0x91ef57d438b0a6c2, 0xb8293670a4def15c, 0xa2684f05931ce7bd, 0x5a417d2c803b9ef6, 0x0dc3e9bf5167482a};

static uint64_t ror(uint64_t x, int n) { return x >> n | x << (64 - n); }

static void compress(uint64_t h[8], const uint8_t *block, size_t n, uint64_t count, int last)
{
    uint64_t m[16] = {0}, v[16];
    for (size_t i = 0; i < n; i++)
        m[i / 8] |= (uint64_t)block[i] << i % 8 * 8;
    for (int i = 0; i < 16; i++)
        v[i] = i < 8 ? h[i] : iv[i - 8] ^ (i == 12 ? count : i == 14 && last ? ~0ull : 0);
    for (int r = 0; r < 12; r++)
        for (int i = 0; i < 8; i++) {
            int s = i / 4, a = i % 4, b = 4 + (i + s) % 4, c = 8 + (i + 2 * s) % 4, d = 12 + (i + 3 * s) % 4;
            v[a] += v[b] + m[sigma[r % 10] >> 8 * i & 15];
            v[d] = ror(v[d] ^ v[a], 32), v[c] += v[d], v[b] = ror(v[b] ^ v[c], 24);
            v[a] += v[b] + m[sigma[r % 10] >> (8 * i + 4) & 15];
            v[d] = ror(v[d] ^ v[a], 16), v[c] += v[d], v[b] = ror(v[b] ^ v[c], 63);
        }
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

static int is_strict(const struct mvld_context *ctx, const struct mvld_file *file)
{
    const struct mvld_object *object = ctx->api->file_object(ctx, file);
    const Elf64_Phdr *ph = object ? object->phdr : NULL;
    uint32_t stack = PF_X; /* for files that do not tell */

    for (size_t i = 0; object && i < object->n_segments; i++)
        if (!(~object->segments[i].prot & 6)) /* PROT_WRITE and PROT_EXEC */
            return 0;
    for (size_t i = 0; object && i < object->phnum; i++)
        stack = ph[i].p_type == PT_GNU_STACK ? ph[i].p_flags : stack;
    return object && !(stack & PF_X);
}

static int map(const struct mvld_context *ctx, const struct mvld_file *file)
{
    uint64_t h[8] = {iv[0] ^ 0x01010020, iv[1], iv[2], iv[3], iv[4], iv[5], iv[6], iv[7]};
    for (size_t at = 0, n = 0; !at || at < file->size; at += 128) {
        n = file->size - at < 128 ? file->size - at : 128;
        compress(h, (const uint8_t *)file->bytes + at, n, at + n, at + n == file->size);
    }
    if (ctx->settings[0].number && !is_strict(ctx, file))
        return ctx->api->fail(ctx->image, 13 /* EACCES */, "%s: it may write what it executes", file->name);
    for (size_t i = 1, n = 0; i < ctx->n_settings; i++, n = 0) {
        while (n < 64 && ctx->settings[i].text[n] == "0123456789abcdef"[h[n / 16] >> (n / 2 % 8 * 8 + !(n & 1) * 4) & 15])
            n++;
        if (n == 64 && !ctx->settings[i].text[n])
            return 0;
    }
    return ctx->api->fail(ctx->image, 13 /* EACCES */, "%s: its digest is not listed", file->name);
}
__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "verify", .help = "only listed files are mapped", .options = options, .map = map};
