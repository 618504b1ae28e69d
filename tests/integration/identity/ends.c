/* SPDX-License-Identifier: MIT
 *
 * Constructors, destructors, atexit, on_exit, at_quick_exit, DT_INIT and DT_FINI: in which order
 * and with which arguments they run, in the program, in a library, and in one that was closed.
 *
 * A failure means that what libraries set up or tear down is missing, or comes twice.
 *
 * build: libbegins.so -DNAME=linked -Wl,-init,begins -Wl,-fini,finishes
 * build: libopened.so -DNAME=opened -Wl,-init,begins -Wl,-fini,finishes
 * build: program -Wl,--no-as-needed libbegins.so
 * run:
 * run: program=program WAY=quick
 * run: WAY=return
 */
#include "identity.h"

#include <dlfcn.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)

#ifndef NAME
#define NAME program
#endif

static void say(const char *what)
{
    printf("%s %s\n", NAMED(NAME), what);
}

static void at_exit(void)
{
    RUNS;
    say("atexit");
}

static void quickly(void)
{
    RUNS;
    say("at_quick_exit");
}

static void with_status(int status, void *text)
{
    RUNS;
    printf("%s on_exit %d %s\n", NAMED(NAME), status, (const char *)text);
}

__attribute__((constructor)) static void constructor(int argc, char **argv, char **env)
{
    RUNS;
    printf("%s constructor %d %d %d\n", NAMED(NAME), argc, argv[argc] == NULL, env == environ);
    atexit(at_exit);
    if (strcmp(NAMED(NAME), "opened")) /* what dlclose does not take back */
        on_exit(with_status, (void *)"text");
    at_quick_exit(quickly);
}

__attribute__((constructor(200))) static void early(void)
{
    RUNS;
    say("early");
}

__attribute__((destructor)) static void destructor(void)
{
    RUNS;
    say("destructor");
}

__attribute__((destructor(200))) static void last(void)
{
    RUNS;
    say("last");
}

__attribute__((used)) void begins(void);
void begins(void)
{
    say("begins");
}

__attribute__((used)) void finishes(void);
void finishes(void)
{
    RUNS;
    say("finishes");
}

#ifdef PART_program
static void preinit(int argc, char **argv, char **env)
{
    (void)argv;
    (void)env;
    printf("preinit %d\n", argc);
}
__attribute__((section(".preinit_array"), used)) static void (*const array)(int, char **,
                                                                         char **) = preinit;

int main(void)
{
    const char *way = getenv("WAY");
    void *h;

    setvbuf(stdout, NULL, _IONBF, 0);
    h = dlopen("libopened.so", RTLD_NOW);
    RUNS;
    atexit(at_exit);
    dlclose(h);
    puts("closed");
    dlopen("libopened.so", RTLD_NOW);
    if (way && !strcmp(way, "quick"))
        quick_exit(0);
    if (way)
        return 5;
    exit(7);
}
#endif
