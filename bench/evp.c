/* SPDX-License-Identifier: MIT
 *
 * evp N [NAME]: what `openssl speed -evp NAME -bytes 16` does (NAME: a digest or a cipher, SHA256),
 * N times instead of for a second.  Ciphers of GCM are given a new nonce for each message, and asked for
 * the tag.  Without OpenSSL's headers: where only its library is, it can be linked all the same.
 */
#include <stdlib.h>
#include <string.h>

struct evp_md *EVP_MD_fetch(void *, const char *, const char *);
int EVP_Digest(const void *, size_t, unsigned char *, unsigned *, const struct evp_md *, void *);
struct evp_cipher *EVP_CIPHER_fetch(void *, const char *, const char *);
struct evp_cipher_ctx *EVP_CIPHER_CTX_new(void);
int EVP_EncryptInit_ex(struct evp_cipher_ctx *, const struct evp_cipher *, void *,
                       const unsigned char *, const unsigned char *);
int EVP_EncryptUpdate(struct evp_cipher_ctx *, unsigned char *, int *, const unsigned char *, int);
int EVP_EncryptFinal_ex(struct evp_cipher_ctx *, unsigned char *, int *);

static unsigned char bytes[16], out[128], key[32], nonce[16];

static int digest(const struct evp_md *md, long n)
{
    while (n-- > 0)
        if (!EVP_Digest(bytes, sizeof bytes, out, NULL, md, NULL))
            return 1;
    return 0;
}

static int encrypt(const struct evp_cipher *cipher, int each, long n)
{
    struct evp_cipher_ctx *ctx = EVP_CIPHER_CTX_new();
    int length;

    if (!EVP_EncryptInit_ex(ctx, cipher, NULL, key, nonce))
        return 1;
    while (n-- > 0) {
        if (each && !EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, nonce))
            return 1;
        if (!EVP_EncryptUpdate(ctx, out, &length, bytes, sizeof bytes))
            return 1;
        if (each && !EVP_EncryptFinal_ex(ctx, out + sizeof bytes, &length))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 0;
    const char *name = argc > 2 ? argv[2] : "SHA256";
    struct evp_md *md = EVP_MD_fetch(NULL, name, NULL);
    struct evp_cipher *cipher = md ? NULL : EVP_CIPHER_fetch(NULL, name, NULL);

    if (!md && !cipher)
        return 2;
    return md ? digest(md, n) : encrypt(cipher, strstr(name, "GCM") != NULL, n);
}
