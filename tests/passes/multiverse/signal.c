/* SPDX-License-Identifier: MIT
 *
 * Commits from a signal handler that may interrupt a commit of the same thread:
 * EDEADLK or success, never a hang, and the code is whole afterwards.
 */
#include <signal.h>
#include <sys/time.h>

#include "check.h"

static volatile sig_atomic_t refused, done, wrong;

static void handler(int signal)
{
    int saved = errno;

    (void)signal;
    if (multiverse_commit() >= 0)
        done++;
    else if (errno == EDEADLK)
        refused++;
    else
        wrong++;
    errno = saved;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 97}, {0, 97}}, stop = {{0, 0}, {0, 0}};

    CHECK(multiverse_init() == 0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 20000 && done + refused < 2000; i++) {
        mode = i & 1;
        CHECK(multiverse_commit() >= 0);
        check_calls("under signals", 1000 + mode, 1000 + mode);
    }
    setitimer(ITIMER_REAL, &stop, NULL);
    CHECK(!wrong);
    CHECK(done + refused > 0, "no signal came");
    mode = 0;
    multiverse_commit();
    check_calls("afterwards", 1000, 1000);
    CHECK(multiverse_revert() == 1);
    check_calls("reverted", 100, 100);
    return 0;
}
