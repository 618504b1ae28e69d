/* SPDX-License-Identifier: MIT
 *
 * What the two libraries compute, and whether their code runs where it was mapped.
 */
#include <stdio.h>
#include <string.h>

int patched_answer(void), patched_outer(void), other_answer(void), other_outer(void);
void *patched_runs(void *(*)(void)), *other_runs(void *(*)(void));

__attribute__((noipa)) int zero(void) { return 0; }
static __attribute__((noinline)) void *caller(void) { return __builtin_return_address(0); }

static int is_mapped(const void *address, const char *file)
{
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    char line[4400];
    int found = 0;

    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end;

        sscanf(line, "%lx-%lx", &start, &end);
        found |= (unsigned long)address - start < end - start && strstr(line, file);
    }
    return found;
}

int main(void)
{
    printf("answer %d outer %d other %d", patched_answer(), patched_outer(), other_answer() + other_outer());
    printf(" moved %d", !is_mapped(patched_runs(caller), "/libpatched.so"));
    printf(" other_moved %d\n", !is_mapped(other_runs(caller), "/libother.so"));
    return 0;
}
