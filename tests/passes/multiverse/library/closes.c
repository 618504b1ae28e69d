/* SPDX-License-Identifier: MIT
 *
 * closes LIBRARY: whose destructor commits.  Another thread closes it while a commit holds a reference to it, so that the
 * commit closes it at last: at its end; or while it takes references, since the library has come back elsewhere.  A
 * failure means that the destructor's commit was taken for one from a signal handler.
 *
 * The program's dlopen does what the other thread would.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

static const char *path;
static struct link_map *library;
static enum { NOTHING, CLOSE, MOVE } other;
static int n_closed, result;

void closed(void)
{
    n_closed++;
    result = multiverse_commit();
}

static void *open_really(const char *name, int mode)
{
    void *(*next)(const char *, int);

    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    return next(name, mode);
}

static void move(void)
{
    void *was = (void *)library->l_addr;

    dlclose(library);
    CHECK(mmap(was, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == was);
    library = open_really(path, RTLD_NOW);
    CHECK(library && (void *)library->l_addr != was);
}

void *dlopen(const char *name, int mode)
{
    void *handle;
    int does = mode & RTLD_NOLOAD && !strcmp(name, path) ? other : NOTHING;

    if (does)
        other = NOTHING;
    if (does == MOVE)
        move();
    handle = open_really(name, mode);
    if (does) {
        dlclose(library);
        n_closed = 0;
        result = -2;
    }
    return handle;
}

static void *waits(void *nothing)
{
    pause();
    return nothing;
}

static void commit_while(int does)
{
    library = open_really(path, RTLD_NOW);
    CHECK(library, "(%s)", dlerror());
    mode = 1;
    other = does;
    CHECK(multiverse_commit() >= 0);
    CHECK(other == NOTHING, "a reference was taken");
    CHECK(n_closed == 1, "by the commit (%d times)", n_closed);
    CHECK(result >= 0, "the destructor's commit");
    check_calls("committed", 1001, 1001);
    CHECK(multiverse_revert() >= 0);
}

int main(int argc, char **argv)
{
    pthread_t thread;

    CHECK(argc == 2);
    path = argv[1];
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    commit_while(CLOSE);
    commit_while(MOVE);
    return 0;
}
