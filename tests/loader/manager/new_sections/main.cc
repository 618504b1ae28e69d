/* SPDX-License-Identifier: MIT
 *
 * Calls a function of the library CALLS times, once for a backtrace, and thrice where it throws.
 */
extern "C" { int called(int); extern volatile int go_on; }

#include <cstdio>
int main(int argc, char **)
{
    for (int i = 0; i < CALLS; i++)
        called(0);
    called(1);
    for (int i = 0; i < 3; i++)
        try { called(-1); } catch (const char *text) { std::printf("caught %s\n", text); }
    std::printf("ready\n");
    std::fflush(stdout);
    if (argc > 1)
        called(2);
    return 0;
}
