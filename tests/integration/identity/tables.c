/* SPDX-License-Identifier: MIT
 *
 * Who looks up return addresses finds them: in a frame table of words, in one of distances, between
 * the bounds of a section, before the end of all code.  Code that such a table describes has the bytes
 * that its file has.
 *
 * A failure means that a garbage collector with stack maps (OCaml's) dies at the first frame that it
 * looks up, or that closures which one process wrote are unknown to the next.
 *
 * build: libwords.so
 * build: libdistances.so
 * build: libbounds.so
 * build: libetext.so
 * build: program libwords.so libdistances.so libbounds.so libetext.so
 * run:
 */
#include "identity.h"

typedef int (*callback)(void);

#ifdef PART_words
/* In an object that imports this, words with addresses of code are not changed. */
int (*const words_locate)(int (*)(struct dl_phdr_info *, size_t, void *), void *) = dl_iterate_phdr;

/* words_f has a place in the table; words_g, in the same object, what passes could change. */
__asm__(".text\n\t.globl words_f, words_g\n\t.type words_f,@function\n"
        "words_f:\n\t.cfi_startproc\n\tsub $8,%rsp\n\t.cfi_def_cfa_offset 16\n\tcall *%rdi\n"
        "1:\tadd $8,%rsp\n\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n"
        "\t.type words_g,@function\n"
        "words_g:\n\t.cfi_startproc\n\tsub $8,%rsp\n\t.cfi_def_cfa_offset 16\n\tcall getpid@PLT\n\t"
        "add $8,%rsp\n\t.cfi_def_cfa_offset 8\n\tret\n"
        "words_end:\n\t.cfi_endproc\n"
        "\t.data\n\t.balign 8\nwords:\t.quad 1b, words_g, words_end\n\t.text");

extern const unsigned char *const words[3] __attribute__((visibility("hidden")));

int words_have(const void *address)
{
    return address == words[0];
}

unsigned words_sum(void)
{
    unsigned sum = 0;

    for (const unsigned char *at = words[1]; at < words[2]; at++)
        sum = sum * 31 + *at;
    return sum;
}
#elif defined PART_distances
/* As many as are no accident. */
__asm__(".text\n\t.globl distances_f\n\t.type distances_f,@function\n\t.balign 16\ndistances_f:\n\t"
        ".rept 100\n\t.balign 16\n\t"
        ".cfi_startproc\n\tsub $8,%rsp\n\t.cfi_def_cfa_offset 16\n\tcall *%rdi\n"
        "1:\tadd $8,%rsp\n\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n\t"
        ".pushsection .rodata.frames,\"a\"\n\t.long 1b - .\n\t.short 16, 0\n\t.popsection\n\t.endr\n\t"
        ".pushsection .rodata.frames,\"a\"\n\t.set distances, . - 800\n\t.popsection");

extern const struct {
    int32_t distance;
    short size, live;
} distances[100] __attribute__((visibility("hidden")));

int distances_have(const void *address)
{
    for (int i = 0; i < 100; i++)
        if (address == (const char *)&distances[i] + distances[i].distance)
            return 1;
    return 0;
}
#elif defined PART_bounds
extern const char __start_own_code[], __stop_own_code[];

int bounds_have(const void *address)
{
    return (const char *)address >= __start_own_code && (const char *)address < __stop_own_code;
}

__attribute__((section("own_code"), noinline)) int bounds_f(callback f)
{
    return f() + 1;
}
#elif defined PART_etext
extern const char etext[] __attribute__((visibility("hidden"))); /* the linker's, behind all code */

int etext_has(const void *address)
{
    return (uintptr_t)etext - (uintptr_t)address < 16384; /* more than this library's code */
}

__attribute__((noinline)) int etext_f(callback f)
{
    return f() + 1;
}
#else
int words_f(callback), words_g(void), distances_f(callback), bounds_f(callback), etext_f(callback);
int words_have(const void *), distances_have(const void *), bounds_have(const void *), etext_has(const void *);
unsigned words_sum(void);

static int in_words(void)
{
    RUNS;
    return words_have(__builtin_return_address(0));
}

static int in_distances(void)
{
    RUNS;
    return distances_have(__builtin_return_address(0));
}

static int in_bounds(void)
{
    RUNS;
    return bounds_have(__builtin_return_address(0));
}

static int before_etext(void)
{
    RUNS;
    return etext_has(__builtin_return_address(0));
}

int main(void)
{
    RUNS;
    printf("word: %d\n", words_f(in_words));
    printf("distance: %d\n", distances_f(in_distances));
    printf("bounds: %d\n", bounds_f(in_bounds) - 1);
    printf("etext: %d\n", etext_f(before_etext) - 1);
    printf("a process: %d\n", words_g() == getpid());
    printf("bytes: %x\n", words_sum());
    return 0;
}
#endif
