/* SPDX-License-Identifier: MIT
 *
 * stop.c: preloaded into any program, stops it before main.
 */
#include <signal.h>
#include <unistd.h>

__attribute__((constructor)) static void stop(void)
{
    kill(getpid(), SIGSTOP);
}
