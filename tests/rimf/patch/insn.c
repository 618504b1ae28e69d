/* SPDX-License-Identifier: MIT
 *
 * Under threads only whole single instructions may be replaced.  A failure means
 * that a thread which stands between two old instructions goes on in the middle
 * of a new one; or that sites which the compiler plugin makes are refused.
 */
#include <pthread.h>
#include <unistd.h>

#include "rimf/patch/private.h"
#include "support.h"

static const struct {
    const char *what;
    uint8_t bytes[16];
    size_t length;
    int single;
} forms[] = {
    {"call rel32", {0xe8, 1, 2, 3, 4}, 5, 1},
    {"call rel32, cut off", {0xe8, 1, 2, 3, 4}, 4, 0},
    {"call rel32; nop", {0xe8, 1, 2, 3, 4, 0x90}, 6, 0}, /* a return address between them */
    {"addr32 call rel32", {0x67, 0xe8, 1, 2, 3, 4}, 6, 1},
    {"jmp rel32", {0xe9, 1, 2, 3, 4}, 5, 1},
    {"jmp rel32; nop", {0xe9, 1, 2, 3, 4, 0x90}, 6, 1},
    {"jmp rel32; push", {0xe9, 1, 2, 3, 4, 0x55}, 6, 0},
    {"jmp rel8; int3", {0xeb, 1, 0xcc, 0xcc, 0xcc}, 5, 1},
    {"call *slot(%rip)", {0xff, 0x15, 1, 2, 3, 4}, 6, 1},
    {"jmp *slot(%rip)", {0xff, 0x25, 1, 2, 3, 4}, 6, 1},
    {"nopl 0(%rax,%rax,1)", {0x0f, 0x1f, 0x44, 0, 0}, 5, 1},
    {"nopw 0(%rax,%rax,1)", {0x66, 0x0f, 0x1f, 0x44, 0, 0}, 6, 1},
    {"mov $7, %eax", {0xb8, 7, 0, 0, 0}, 5, 1},
    {"movabs $7, %rax", {0x48, 0xb8, 7, 0, 0, 0, 0, 0, 0, 0}, 10, 1},
    {"mov $7, %rax", {0x48, 0xc7, 0xc0, 7, 0, 0, 0}, 7, 1},
    {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}, 4, 1},
    {"mov 16(%rdi), %rax", {0x48, 0x8b, 0x47, 0x10}, 4, 1},
    {"mov 1(%rsp,%rcx,4), %eax", {0x8b, 0x44, 0x8c, 1}, 4, 1},
    {"push %rbp; mov %rsp, %rbp", {0x55, 0x48, 0x89, 0xe5}, 4, 0},
    {"nop; nop", {0x90, 0x90}, 2, 0},
    {"xor %eax, %eax; nopl (%rax)", {0x31, 0xc0, 0x0f, 0x1f, 0x00}, 5, 0},
    {"add $9, %ax", {0x66, 0x81, 0xc0, 9, 0}, 5, 1},
    {"vpgatherdd, interrupted half-way", {0xc4, 0xe2, 0x75, 0x90, 0x04, 0x80}, 6, 0},
    {"rep movsb, likewise", {0xf3, 0xa4}, 2, 0},
    {"syscall, made again", {0x0f, 0x05}, 2, 0},
    {"lock xadd, behind whose prefix others enter", {0xf0, 0x0f, 0xc1, 0x07}, 4, 0},
    {"out, which nobody emits", {0xe7, 1}, 2, 0},
};

static void *park(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* The engine asks exactly when somebody else runs. */
static void refused_under_threads(void)
{
    static const uint8_t two[4] = {0x55, 0x48, 0x89, 0xe5}, one[4] = {0x0f, 0x1f, 0x40, 0};
    struct mvld_patch_report report;
    struct patch_text t;
    struct mvld_batch *b;
    pthread_t thread;

    patch_text_open(&t, 1);
    for (int back = 0; back < 2; back++) {
        b = rimf_patcher_begin(t.patcher);
        rimf_patch_add(b, (uintptr_t)t.code, back ? two : (uint8_t *)"\xc3\xc3\xc3\xc3",
                       back ? one : two, 4);
        rimf_patch_add(b, (uintptr_t)t.code + 32, back ? one : (uint8_t *)"\xc3\xc3\xc3\xc3",
                       back ? two : one, 4);
        if (back)
            CHECK(pthread_create(&thread, NULL, park, NULL) == 0);
        CHECK(rimf_patch_commit(b, &report) == 0, "(%s)", t.sentence);
        CHECK(report.refused == (size_t)back && report.applied == 2 - (size_t)back);
        CHECK(rimf_patch_at(b, 0)->result == (back ? -EDEADLK : 0));
        rimf_patch_end(b);
    }
    CHECK(!memcmp(t.code, two, 4) && !memcmp(t.code + 32, two, 4));
    b = rimf_patcher_begin(t.patcher);
    rimf_patch_add(b, (uintptr_t)t.code, two, one, 4);
    CHECK(rimf_patch_commit(b, &report) == -EDEADLK && report.refused == 1);
    rimf_patch_end(b);
    patch_text_close(&t);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        CHECK(patch_one_instruction(forms[i].bytes, forms[i].length) == forms[i].single, "(%s)",
              forms[i].what);
    refused_under_threads();
    return 0;
}
