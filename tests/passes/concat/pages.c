/* SPDX-License-Identifier: MIT
 *
 * pages.c: a program with some 6 MB of code in functions of 300 bytes.  It prints how many KB of
 * huge pages there are below its executable memory, and runs a function that was copied.
 */
#include <stdio.h>
#include <string.h>

__asm__(".text\n"
        ".p2align 4\n"
        ".rept 20000\n"
        ".cfi_startproc\n"
        ".fill 49, 6, 0x0000441f0f66\n" /* 66 0f 1f 44 00 00  nopw 0(%rax,%rax) */
        "mov %edi, %eax\n"
        "ret\n"
        ".cfi_endproc\n"
        ".p2align 4\n"
        ".endr\n");

static __attribute__((noinline)) int twice(int x)
{
    return x + x;
}

int main(int argc, char **argv)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    int executable = 0, huge = 0, kb;
    char line[4096], rights[5];

    (void)argv;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*x-%*x %4s", rights) == 1)
            executable = rights[2] == 'x';
        else if (executable && sscanf(line, "AnonHugePages: %d kB", &kb) == 1)
            huge += kb;
    }
    printf("%d %d\n", huge, twice(argc));
    return 0;
}
