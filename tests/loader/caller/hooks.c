/* SPDX-License-Identifier: MIT
 *
 * What the C library answers to moved code (loader/caller/hooks.c): the same as to that
 * original code.  A failure means that a program whose code moved finds other symbols
 * and libraries than without mvld, or crashes where a hook was written half.
 *
 * Moved is one function of a library, by hand, and noted in the image as moved.
 * Each case runs in a process of its own.
 */
#include "world.h"

#include "rimf/moved/moved.h"
#include "rimf/image/private.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#define HIDDEN "libcaller_hidden.so"

void caller_behind(void), caller_stubs(void);

/* The same in the executable. */
call main_call;
__asm__(".text\n"
        ".p2align 6\n"
        "main_call: sub $8, %rsp\n  mov %rdi, %rax\n  mov %rsi, %rdi\n  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n  mov %r8, %rcx\n  call *%rax\n  add $8, %rsp\n  ret\n"
        "  .p2align 6\n");

call *moved;
static call *main_moved;
struct mvld_image *image;

/* ---- the process as the loader sees it --------------------------------------------- */

static void find_text(struct host *host, const struct mvld_object *object)
{
    for (size_t i = 0; i < object->n_segments; i++) {
        if (object->segments[i].prot & PROT_EXEC) {
            host->text = rimf_page_down(object->segments[i].start);
            host->text_end = rimf_page_up(object->segments[i].end);
        }
    }
}

static const struct mvld_object *find_object(uint32_t flag)
{
    for (size_t i = 0; i < rimf_api()->object_count(image); i++)
        if (rimf_api()->object_at(image, i)->flags & flag)
            return rimf_api()->object_at(image, i);
    CHECK(0, "(no object with flag %u)", flag);
    return NULL;
}

static void note(struct moved_code *code, size_t index)
{
    struct moved_fragment *fragment = &code->list[index];
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(
        rimf_object_find(image, fragment->original));

    fragment->object = object;
    moved_drop(image, object);
    CHECK(moved_note(image, object, index) == 0);
}

static void move_functions(void)
{
    static struct moved_code moved_code;
    static struct moved_fragment list[2];
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    memcpy(page, (void *)caller_call, CODE);
    memcpy((char *)page + 2048, (void *)main_call, CODE);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    moved = (call *)(uintptr_t)page;
    main_moved = (call *)((uintptr_t)page + 2048);
    list[0] = (struct moved_fragment){.original = (uintptr_t)caller_call, .at = (uintptr_t)page,
                                 .code = CODE, .size = CODE};
    list[1] = (struct moved_fragment){.original = (uintptr_t)main_call, .at = (uintptr_t)main_moved,
                                 .code = CODE, .size = CODE};
    moved_code = (struct moved_code){.list = list, .n = 2, .n_planned = 2, .find = rimf_moved_find};
    image->moved = &moved_code;
    note(&moved_code, 0);
    note(&moved_code, 1);
    for (size_t i = 0; i < 2; i++) {
        list[i].object = (struct rimf_object *)rimf_object_find(image, list[i].original);
        CHECK(moved_note(image, (struct rimf_object *)list[i].object, i) == 0);
    }
    CHECK(rimf_original_of(image, (uintptr_t)page + 7) == (uintptr_t)caller_call + 7);
}

struct loader *start(void)
{
    static struct rooms rooms;
    struct loader *l = &loader_state;

    rooms_set(l, &rooms);
    caller_behind();
    caller_stubs();
    /* Stage 0 has an _r_debug of its own.  What the host loader keeps is its own, or, before
     * glibc 2.35, may be this one. */
    for (const Elf64_Dyn *d = _DYNAMIC; d->d_tag; d++)
        if (d->d_tag == DT_DEBUG)
            _r_debug.r_map = ((struct r_debug *)d->d_un.d_ptr)->r_map;
    image = process_image();
    l->sys = &rimf_sys_kernel;
    l->log = process_log;
    l->image = image;
    find_text(l->host, find_object(MVLD_OBJECT_LOADER));
    move_functions();
    return l;
}

/* ---- questions ------------------------------------------------------------------------- */

enum {
    NEXT, NEXT_MAIN, NEXT_VERSION, OPEN, OPEN_ORIGIN, OPEN_NAMESPACE, ADDRESS, ENTRY, MAP,
    SYMBOLS, QUESTIONS
};

static const char *const names[QUESTIONS] = {
    "dlsym(RTLD_NEXT)", "dlsym(RTLD_NEXT) of the executable", "dlvsym(RTLD_NEXT)",
    "dlopen, by RUNPATH", "dlopen, by $ORIGIN", "dlmopen, by RUNPATH", "dladdr",
    "dladdr1, the symbol", "dladdr1, the link map", "backtrace_symbols"};

static char text[QUESTIONS][2][512];

static void ask_address(int which, call *from, char *out)
{
    Dl_info info = {0};
    void *address = (char *)(uintptr_t)from + 20, *more = NULL, *found = NULL;
    char **symbols, *name;

    switch (which) {
    case ADDRESS:
        found = from((void *)dladdr, address, &info, NULL, NULL);
        break;
    case ENTRY:
    case MAP:
        found = from((void *)dladdr1, address, &info, &more,
                     (void *)(uintptr_t)(which == ENTRY ? RTLD_DL_SYMENT : RTLD_DL_LINKMAP));
        break;
    case SYMBOLS: /* behind the name come the distance from it and the address: of moved code */
        symbols = backtrace_symbols(&address, 1);
        name = strrchr(symbols[0], '(');
        if (name)
            name[1 + strcspn(name + 1, "+-)")] = '\0';
        snprintf(out, 512, "%s", symbols[0]);
        free(symbols);
        return;
    }
    snprintf(out, 512, "%d %s %p %s %p %p", (int)(intptr_t)found & 0xff ? 1 : 0,
             info.dli_fname ? info.dli_fname : "", info.dli_fbase,
             info.dli_sname ? info.dli_sname : "", info.dli_saddr, more);
}

static void ask(int which, call *from, char *out)
{
    void *found = NULL;

    switch (which) {
    case NEXT:
        found = from((void *)dlsym, RTLD_NEXT, "caller_name", NULL, NULL);
        snprintf(out, 512, "%s", found ? ((const char *(*)(void))(uintptr_t)found)() : "none");
        break;
    case NEXT_MAIN:
        from = from == moved ? main_moved : main_call;
        found = from((void *)dlsym, RTLD_NEXT, "caller_name", NULL, NULL);
        snprintf(out, 512, "%s", found ? ((const char *(*)(void))(uintptr_t)found)() : "none");
        break;
    case NEXT_VERSION:
        found = from((void *)dlvsym, RTLD_NEXT, "caller_name", "CALLER_1", NULL);
        snprintf(out, 512, "%s", found ? ((const char *(*)(void))(uintptr_t)found)() : "none");
        break;
    case OPEN:
        found = from((void *)dlopen, HIDDEN, (void *)RTLD_NOW, NULL, NULL);
        break;
    case OPEN_ORIGIN:
        found = from((void *)dlopen, "$ORIGIN/hidden/" HIDDEN, (void *)RTLD_NOW, NULL, NULL);
        break;
    case OPEN_NAMESPACE:
        found = from((void *)dlmopen, (void *)LM_ID_BASE, HIDDEN, (void *)RTLD_NOW, NULL);
        break;
    default:
        ask_address(which, from, out);
        return;
    }
    if (which >= OPEN) {
        snprintf(out, 512, "%s", found ? "opened" : dlerror());
        if (found)
            dlclose(found);
    }
}

static void ask_all(int *same)
{
    for (int i = 0; i < QUESTIONS; i++) {
        ask(i, caller_call, text[i][0]);
        ask(i, moved, text[i][1]);
        same[i] = strcmp(text[i][0], text[i][1]) == 0;
    }
}

void check_hooks(void)
{
    int same[QUESTIONS];

    ask_all(same);
    for (int i = 0; i < QUESTIONS; i++)
        CHECK(same[i], "(%s: originally \"%s\", moved \"%s\")", names[i], text[i][0],
              text[i][1]);
    CHECK_STR(text[NEXT][0], "next");
    CHECK_STR(text[NEXT_MAIN][0], "the caller's");
    CHECK_STR(text[NEXT_VERSION][0], "next");
    CHECK_STR(text[OPEN][0], "opened");
    CHECK_STR(text[OPEN_ORIGIN][0], "opened");
    CHECK_STR(text[OPEN_NAMESPACE][0], "opened");
    CHECK(strstr(text[ADDRESS][0], " caller_call ") != NULL, "(%s)", text[ADDRESS][0]);
}

/* ---- cases --------------------------------------------------------------------------------- */

void prepare(struct loader *l)
{
    const char *why = "";

    CHECK(caller_prepare(l, &why) == 0, "(%s)", why);
    CHECK(image->feeder.kept[1].at == l->caller->functions[1].at);
}

/* The calls do depend on their caller: without the hooks each has another result in moved code. */
static void answered(void)
{
    struct loader *l = start();
    const char *why = "";
    int same[QUESTIONS];

    prepare(l);
    ask_all(same);
    for (int i = 0; i < QUESTIONS; i++)
        CHECK(!same[i], "(%s is no question: \"%s\")", names[i], text[i][0]);
    CHECK(caller_install(l, &why) == 0, "(%s)", why);
    check_hooks();
    CHECK(caller_install(l, &why) == 0, "(%s)", why); /* once is enough */
    check_hooks();
}

/* Where the canonical address of a function is that of moved code, dlsym and dladdr say so; what came from
 * a backtrace, an original address, gets where that function begins. */
static void is_canonical(void)
{
    struct loader *l = start();
    const char *why = "";
    Dl_info info;

    ((struct moved_fragment *)image->moved->list)[0].is_canonical = 1;
    prepare(l);
    CHECK(dlsym(RTLD_DEFAULT, "caller_call") == (void *)caller_call);
    CHECK(caller_install(l, &why) == 0, "(%s)", why);
    CHECK(dlsym(RTLD_DEFAULT, "caller_call") == (void *)(uintptr_t)moved);
    CHECK(dlsym(RTLD_DEFAULT, "main_call") == (void *)main_call ||
          !dlsym(RTLD_DEFAULT, "main_call"));
    CHECK(!dlsym(RTLD_DEFAULT, "caller_of_nobody") && strstr(dlerror(), "caller_of_nobody"));
    CHECK(dladdr((char *)(uintptr_t)moved + 20, &info) && strstr(info.dli_sname, "caller_call") &&
          info.dli_saddr == (void *)(uintptr_t)moved);
    CHECK(dladdr((char *)(uintptr_t)caller_call + 20, &info) &&
          info.dli_saddr == (void *)caller_call);
    CHECK(dladdr((char *)(uintptr_t)main_moved + 20, &info) &&
          info.dli_saddr != (void *)(uintptr_t)main_moved);
    CHECK(!dladdr((void *)16, &info));
}

/* Calls caller_stub_entry with these in %rax, %rcx, %rdx, %rsi, %rdi, %r8 … %r11. */
void caller_registers(const uint64_t *in, uint64_t *out);
__asm__(".text\n"
        "caller_registers:\n"
        "  push %rbp\n  push %rbx\n"
        "  mov %rdi, %rbp\n  mov %rsi, %rbx\n"
        "  mov (%rbp), %rax\n  mov 8(%rbp), %rcx\n  mov 16(%rbp), %rdx\n"
        "  mov 24(%rbp), %rsi\n  mov 32(%rbp), %rdi\n  mov 40(%rbp), %r8\n"
        "  mov 48(%rbp), %r9\n  mov 56(%rbp), %r10\n  mov 64(%rbp), %r11\n"
        "  call caller_stub_entry\n"
        "  mov %rax, (%rbx)\n  mov %rcx, 8(%rbx)\n  mov %rdx, 16(%rbx)\n"
        "  mov %rsi, 24(%rbx)\n  mov %rdi, 32(%rbx)\n  mov %r8, 40(%rbx)\n"
        "  mov %r9, 48(%rbx)\n  mov %r10, 56(%rbx)\n  mov %r11, 64(%rbx)\n"
        "  pop %rbx\n  pop %rbp\n  ret\n");

/* Every register that may hold an argument is kept, but the first one. */
static void registers(void)
{
    enum { N = 9, FIRST = 4 };
    uint64_t in[N], out[N] = {0};

    start();
    for (int i = 0; i < N; i++)
        in[i] = 0x0101010101010101u * (uint64_t)(i + 1);
    caller_registers(in, out);
    CHECK(memcmp(in, out, sizeof in) == 0);
    in[FIRST] = (uintptr_t)moved + 9;
    caller_registers(in, out);
    CHECK(out[FIRST] == (uintptr_t)caller_call + 9);
    out[FIRST] = in[FIRST];
    CHECK(memcmp(in, out, sizeof in) == 0);
}

/* ---- threads ------------------------------------------------------------------------------ */

static volatile int over;

/* dladdr itself takes a lock, which the thread may be about to take. */
static void in_handler(int signal)
{
    struct link_map *(*find)(void *) = (void *)loader_state.caller->functions[0].at;
    struct link_map *map = find((char *)(uintptr_t)moved + 3);

    if (signal != SIGALRM || !map || !strstr(map->l_name, "libcaller_caller.so"))
        abort();
}

static void *asks(void *unused)
{
    while (!over) {
        Dl_info info;

        CHECK(dladdr((char *)(uintptr_t)moved + 5, &info) && info.dli_sname);
        CHECK(dladdr((char *)(uintptr_t)moved + 4000, &info) == 0);
    }
    return unused;
}

/* Threads and signal handlers are in the stubs all the time. */
static void threads(void)
{
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct loader *l = start();
    pthread_t thread[3];
    const char *why = "";

    prepare(l);
    CHECK(caller_install(l, &why) == 0, "(%s)", why);
    signal(SIGALRM, in_handler);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&thread[i], NULL, asks, NULL) == 0);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 300; i++)
        usleep(1000);
    setitimer(ITIMER_REAL, &never, NULL);
    over = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    check_hooks();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"answered", answered},       {"registers", registers}, {"canonical", is_canonical},
                 {"unwinder", unwinder},       {"unwinder_later", unwinder_later},
                 {"threads", threads},         {"breakpoints", breakpoints},
                 {"stubs_in_use", stubs_in_use}, {"not_prepared", not_prepared},
                 {"failures", failures}};

    if (getenv("LD_LIBRARY_PATH")) { /* a test's runner may say where all libraries are */
        unsetenv("LD_LIBRARY_PATH");
        execv("/proc/self/exe", argv);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pid_t child;
        int status;

        if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        fflush(NULL);
        child = fork();
        if (child == 0) {
            cases[i].run();
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0, "(%s: %x)", cases[i].name,
              status);
    }
    return 0;
}
