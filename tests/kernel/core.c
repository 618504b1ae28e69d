/* SPDX-License-Identifier: MIT
 *
 * The engine as a kernel has it, over a stand-in for the platform: memory that can run out, and code that is
 * changed through /proc/self/mem.  A failure means that a kernel would run code for a value that it has not, or
 * would change what it must not.
 *
 *     core                     all of it
 *     core damage              the module's descriptors are damaged
 */
#include <fcntl.h>
#include <unistd.h>

#include "kernel/core/core.h"

#include "../check.h"
#include "world.h"

/* ---- the platform */

static long until_short = -1; /* allocations that succeed; -1: all */
static int n_changes, n_lines;
static int refuse_changes; /* negative errno */
static char logged[4096];

void *mvk_alloc(size_t size)
{
    if (until_short == 0)
        return NULL;
    until_short -= until_short > 0;
    return calloc(1, size);
}

void mvk_release(void *memory)
{
    free(memory);
}

void mvk_log(const char *line)
{
    n_lines++;
    snprintf(logged, sizeof logged, "%s", line);
}

static void write_code(uintptr_t at, const void *bytes, size_t n)
{
    int memory = open("/proc/self/mem", O_RDWR);

    CHECK(memory >= 0 && pwrite(memory, bytes, n, (off_t)at) == (ssize_t)n);
    close(memory);
}

static uintptr_t others; /* where others change code */

int mvk_tied_to_address(uintptr_t code, size_t size)
{
    return others - code < size;
}

uintptr_t mvk_return_thunk(void)
{
    return (uintptr_t)thunk;
}

void mvk_check_text(struct mvk_change *changes, size_t n)
{
    mvk_verify(changes, n);
}

int mvk_change_text(struct mvk_change *changes, size_t n)
{
    if (refuse_changes)
        return refuse_changes;
    mvk_check_text(changes, n);
    for (size_t i = 0; i < n; i++) {
        uintptr_t at = mvk_word_of(&changes[i]);
        uint64_t word;

        CHECK(i == 0 || changes[i].address > changes[i - 1].address, "(by address)");
        if (changes[i].result)
            continue;
        memcpy(&word, (void *)at, 8);
        word = mvk_merge(&changes[i], word);
        write_code(at, &word, sizeof word);
        n_changes++;
    }
    return 0;
}

/* ---- objects: sections of the linked program */

#define RANGE(name) extern char __start_##name[], __stop_##name[]
RANGE(kernel_text); RANGE(kernel_data);
RANGE(multiverse_functions); RANGE(multiverse_callsites); RANGE(multiverse_switches);
RANGE(module_text); RANGE(module_data);
RANGE(module_functions); RANGE(module_callsites); RANGE(module_switches);

#define AT(name) (uintptr_t)__start_##name
#define END(name) (uintptr_t)__stop_##name
#define OBJECT(title, text, data, functions, callsites, switches)                                    \
    {                                                                                                \
        .object = {.name = title, .n_segments = 5},                                                  \
        .segments = {{AT(text), END(text), PROT_READ | PROT_EXEC},                                   \
                     {AT(data), END(data), PROT_READ | PROT_WRITE},                                  \
                     {AT(functions), END(functions), PROT_READ},                                     \
                     {AT(callsites), END(callsites), PROT_READ},                                     \
                     {AT(switches), END(switches), PROT_READ}},                                      \
        .tables = {AT(functions), END(functions), AT(callsites), END(callsites), AT(switches), END(switches)}, \
    }
static struct mvk_object kernel, module;

static void make_objects(void)
{
    kernel = (struct mvk_object)OBJECT("vmlinux", kernel_text, kernel_data, multiverse_functions,
                                       multiverse_callsites, multiverse_switches);
    module = (struct mvk_object)OBJECT("module", module_text, module_data, module_functions, module_callsites,
                                       module_switches);
    kernel.object.segments = kernel.segments;
    module.object.segments = module.segments;
}

/* ---- what is checked */

static int lock;

static void check_take(const char *when, int want, int taken)
{
    int (*const calls[])(int *) = {call_take, call_through, call_from_init, call_take_in_module};

    for (size_t i = 0; i < RIMF_COUNT(calls); i++) {
        lock = 0;
        int is = calls[i](&lock);
        CHECK(is == want && lock == taken, "(%s: call %zu gives %d, took %d)", when, i, is, lock);
    }
}

static void line(void *cookie, const char *text)
{
    strncat(cookie, text, 4000);
    strncat(cookie, "\n", 2);
}

static void commits(void)
{
    check_take("uncommitted", 101, 1);
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) == 6, "(take, level, ask_doubled, steps, step, operations.get): %s", mvk_error());
    many = 0;
    settings.level = 1;
    check_take("committed for many", 101, 1);
    CHECK(call_level() == 120);
    CHECK(mvk_apply(MV_COMMIT, MV_REFS, &many) == 1);
    many = 1;
    check_take("committed for one", 100, 0);
    CHECK(call_level() == 120);
    CHECK(mvk_apply(MV_COMMIT, MV_FUNCTION, (void *)level) == 1);
    CHECK(call_level() == 110);
    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) == 6);
    check_take("reverted", 101, 1);
    CHECK(mvk_apply(MV_COMMIT, MV_REFS, &lock) == -EINVAL && *mvk_error());
    CHECK(mvk_apply(MV_COMMIT, MV_FUNCTION, &lock) == -EINVAL);
}

static void sets(void)
{
    char text[8192] = "";
    void *found;

    CHECK(mvk_set(&many, 0) == 1);
    check_take("set to 0", 100, 0);
    CHECK(many == 0 && mvk_find("many", &found) == 0 && found == &many);
    CHECK(mvk_find("nobody", &found) == -ENOENT && !found && *mvk_error());
    CHECK(mvk_set(&lock, 0) == -EINVAL && *mvk_error());
    CHECK(mvk_set(&settings.level, 256) == -ERANGE && mvk_set(&settings.level, -1) == -ERANGE);
    CHECK(mvk_set(&many, 1l << 31) == -ERANGE && many == 0);
    CHECK(mvk_set(&many, 7) == 1);
    check_take("set to what no variant is for", 107, 1);
    CHECK(mvk_set(&many, 0) == 1);
    kernel.segments[1].prot |= MVK_READ_ONLY_LATER;
    CHECK(mvk_set(&many, 1) == -EPERM && many == 0 && *mvk_error());
    kernel.segments[1].prot = PROT_READ | PROT_WRITE;
    CHECK(mvk_set(&settings.level, 0) >= 0 && call_level() == 120);
    CHECK(mvk_dump(line, text) == 0);
    CHECK(strstr(text, "switch many at ") && strstr(text, "function take at "), "%s", text);
    CHECK(mvk_set(&many, 1) == 1);
}

/* A member of a table of pointers, whose calls are asm: one instruction behind a commit. */
static void pointers(void)
{
    int (*before)(void) = operations.get;

    CHECK(call_operation() == 7);
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) >= 1);
    operations.get = NULL; /* nobody looks at it now */
    CHECK(call_operation() == 7);
    operations.get = eight;
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) == 1 && call_operation() == 8);
    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 1 && call_operation() == 8);
    /* Others put code into a NOP: whose function is called. */
    operations.get = nine;
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) >= 1);
    write_code((uintptr_t)nine, "\xb8\x09\0\0\0", 5); /* mov $9, %eax; nopl 0(%rax,%rax) until now */
    CHECK(call_operation() == 9);
    /* A copy lacks what others change later: a function of which that is known is called. */
    for (int known = 0; known < 2; known++) {
        CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 1);
        operations.get = ten;
        others = known ? (uintptr_t)ten + 4 : 0;
        CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) >= 1 && call_operation() == 10);
        write_code((uintptr_t)ten + 1, "\x0b", 1); /* mov $11, %eax */
        CHECK(call_operation() == 10 + known);
        write_code((uintptr_t)ten + 1, "\x0a", 1);
    }
    others = 0;
    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 1);
    operations.get = twelve; /* returns by the thunk: copied, so the call does not see what it becomes */
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) >= 1 && call_operation() == 12);
    write_code((uintptr_t)twelve + 1, "\x0d", 1);
    CHECK(call_operation() == 12 && operations.get() == 13);
    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 1);
    operations.get = before;
    CHECK(call_operation() == 7);
}

/* A body in its caller, and a variable whose value is in the code. */
static void inlined(void)
{
    CHECK(call_inline(14) == 102 && read_step() == 103);
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) >= 2);
    set_inline(true, 5);
    CHECK(call_inline(14) == 102 && read_step() == 103, "%d, %d", call_inline(14), read_step());
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) == 2 && call_inline(14) == 296 && read_step() == 105);
    set_inline(false, 3);
    CHECK(call_inline(14) == 296 && read_step() == 105);
    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 2 && call_inline(14) == 102 && read_step() == 103);
}

/* What cannot be done is not half done. */
static void shortages(void)
{
    static const int errors[] = {-ENOMEM, -EFAULT, -ESTALE};

    for (size_t i = 0; i < RIMF_COUNT(errors); i++) {
        refuse_changes = errors[i];
        CHECK(mvk_set(&many, 0) < 0 && many == 1 && *mvk_error(), "(%d)", errors[i]);
        refuse_changes = 0;
        check_take("no changes", 101, 1);
        CHECK(mvk_is_settled(&many) == 0 && mvk_set(&many, 1) >= 0 && mvk_is_settled(&many));
    }
    for (int n = 0, result = -1; result < 0; n++) {
        until_short = n;
        result = mvk_set(&many, 0);
        until_short = -1;
        CHECK(result == -ENOMEM || result == 1, "(%d)", result);
        CHECK(many == (result < 0));
        check_take("memory is short", result < 0 ? 101 : 100, result < 0);
    }
    CHECK(mvk_set(&many, 1) == 1);
}

static char as_in_file[4096];
#define MODULE_SIZE (END(module_text) - AT(module_text))

/* Its code is as in its file, if it comes again. */
static void unload(void)
{
    mvk_remove(&module);
    write_code(AT(module_text), as_in_file, MODULE_SIZE);
    n_lines = 0;
}

static void modules(void)
{
    void *found;

    CHECK(MODULE_SIZE <= sizeof as_in_file);
    memcpy(as_in_file, __start_module_text, MODULE_SIZE);
    mvk_set(&many, 0);
    for (int i = 0; i < 3; i++) {
        lock = 7;
        CHECK(mvk_add(&module) == 1 && !n_lines, "%s", logged);
        check_take("called from the module", 100, 0);
        CHECK(call_module_take(&lock) == 100 && lock == 0);
        traced = 1;
        CHECK(mvk_set(&traced, 2) == -ERANGE && traced == 1);
        CHECK(mvk_set(&traced, 0) == 1 && call_trace() == 102);
        CHECK(mvk_set(&many, 1) == 2);
        CHECK(call_module_take(&lock) == 101);
        CHECK(mvk_set(&many, 0) == 2);
        mvk_remove(&module);
        CHECK(mvk_find("traced", &found) == -ENOENT && mvk_find("many", &found) == 0);
        CHECK(mvk_add(&module) == 1 && n_lines, "(its code is not as in its file: refused)");
        unload();
    }
    CHECK(mvk_set(&many, 1) == 1);
}

/* Behind a commit that had too little memory, one of something else changes that alone. */
static void failures_end(void)
{
    for (int n = 0, result = -1; result < 0; n++) {
        until_short = n;
        result = mvk_set(&many, 0);
        until_short = -1;
        if (result < 0)
            CHECK(mvk_set(&settings.level, n & 1) >= 0);
        check_take("another switch is set", result < 0 ? 101 : 100, result < 0);
    }
    CHECK(mvk_set(&many, 1) == 1);
}

/* A module that came with too little memory is generic, and the kernel's switches go on. */
static void module_without_memory(void)
{
    for (int n = 0, result = -1; result < 0; n++) {
        until_short = n;
        result = mvk_add(&module);
        until_short = -1;
        CHECK(result == -ENOMEM || result == 1, "(%d)", result);
        CHECK(mvk_set(&many, 0) >= 1, "%s", mvk_error());
        check_take("a module without memory", 100, 0);
        CHECK(mvk_set(&many, 1) >= 1);
        check_take("a module without memory", 101, 1);
        unload();
        CHECK(n < 100);
    }
}

/* A module's static variable with the name of the kernel's: each is itself. */
static void names(void)
{
    void *kernels, *found;

    CHECK(mvk_find("doubled", &kernels) == 0 && kernels);
    CHECK(mvk_add(&module) == 1);
    CHECK(mvk_find("doubled", &found) == -ENOTUNIQ && !found && *mvk_error());
    CHECK(mvk_set(kernels, 0) == 1 && call_doubled() == 100 && call_module_doubled() == 101);
    CHECK(mvk_set(kernels, 1) == 1);
    unload();
    CHECK(mvk_find("doubled", &found) == 0 && found == kernels);
}

/* A site that does not lie in one word, and one whose bytes are not ours. */
static void refusals(void)
{
    static const struct mvld_word places[] = {{3, 6, 0}, {8, 5, 0}};
    static unsigned char code[32] __attribute__((aligned(8)));
    static const uint64_t expect[] = {0, 1}, replace[] = {9, 9};
    struct mvld_image *none = &(struct mvld_image){0};
    struct mvld_batch *batch = mvk_patch_begin(none);
    struct mvld_patch_report report = {0};

    CHECK(batch && mvk_patch_add(batch, (uintptr_t)code + 16, "\0\0\0\0\0", "\1\2\3\4\5", 5) == 0);
    CHECK(mvk_patch_add_words(batch, (uintptr_t)code, places, expect, replace, 2) == 0);
    CHECK(mvk_patch_commit(batch, &report) == 0 && report.refused == 2 && report.applied == 1);
    CHECK(mvk_patch_at(batch, 0)->result == 0 && mvk_patch_at(batch, 1)->result == -EDEADLK);
    CHECK(mvk_patch_at(batch, 2)->result == -ESTALE && !mvk_patch_at(batch, 3));
    CHECK(!memcmp(code + 14, "\0\0\1\2\3\4\5\0", 8) && code[3] == 0 && code[8] == 0);
    mvk_patch_end(batch);
}

static int listed_refusals(void)
{
    char text[8192] = "";

    CHECK(mvk_dump(line, text) == 0);
    return !!strstr(text, "refused: module");
}

/* ---- the list of places */

static char listed[1 << 16];

static void list_line(void *cookie, uintptr_t at, const char *text)
{
    size_t used = strlen(listed);

    (void)cookie;
    snprintf(listed + used, sizeof listed - used, "%#lx %s\n", (unsigned long)at, text);
}

/* How many lines contain this. */
static int lists(const char *text)
{
    int n = 0;

    listed[0] = 0;
    CHECK(mvk_list(list_line, NULL) == 0, "%s", mvk_error());
    for (const char *at = listed; (at = strstr(at, text)); at++)
        n++;
    return n;
}

/* The code of a call, for somebody else's change. */
static uint8_t *call_of_level(void)
{
    uint8_t *at = (uint8_t *)call_level;

    while (*at != 0xe8 && *at != 0xb8)
        at++;
    return at;
}

static void places(void)
{
    uint8_t *call = call_of_level(), before;
    char at[64];

    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 0);
    CHECK(lists(": not bound\n") > 0 && lists(", as linked\n") > 0);
    CHECK(lists("bound to") + lists(", bound") + lists(", holds") + lists("refused") == 0, "%s", listed);
    CHECK(mvk_set(&settings.level, 0) >= 0);
    snprintf(at, sizeof at, "%p call, as linked\n", (void *)call);
    CHECK(lists("function level of vmlinux: bound to level.multiverse.") == 1 && lists(at) == 0, "%s", listed);
    CHECK(lists("variant level.multiverse.") == 2 && lists(": settings.level=0..0\n") == 1, "%s", listed);
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) >= 0);
    CHECK(lists("read, holds the value\n") == 1 && lists("jump, bound\n") == 1, "%s", listed);
    CHECK(lists("function operations.get of vmlinux: bound\n") == 1 && lists("the pointer's target\n") == 1);
    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 0);
    /* Somebody changes it: as a probe does. */
    before = *call;
    write_code((uintptr_t)call, "\xcc", 1);
    CHECK(mvk_set(&settings.level, 1) >= 0);
    snprintf(at, sizeof at, "%p call, as linked, refused: its bytes are not", (void *)call);
    CHECK(lists(at) == 1 && lists("refused") == 1, "%s", listed);
    write_code((uintptr_t)call, &before, 1);
    CHECK(lists("refused: the next operation tries again\n") == 1, "%s", listed);
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) >= 0 && lists("refused") == 0, "%s", listed);
    CHECK(call_level() == 110);
    CHECK(mvk_apply(MV_REVERT, MV_ALL, NULL) >= 0 && mvk_set(&many, 1) == 1);
}

/* The module's functions stay generic, one line says which and why, until it goes. */
static void damage(void)
{
    uint32_t *size = (uint32_t *)__start_module_functions;

    CHECK(mvk_set(&many, 0) == 1);
    *size += 4096;
    CHECK(mvk_add(&module) == 0);
    CHECK(n_lines == 1 && strstr(logged, "module"), "%d: %s", n_lines, logged);
    lock = 0;
    CHECK(call_take_in_module(&lock) == 100 && call_trace() == 101);
    CHECK(listed_refusals());
    mvk_remove(&module);
    CHECK(!listed_refusals());
    *size -= 4096;
    ((struct multiverse_function *)size)->pad += 4; /* this record alone */
    CHECK(mvk_add(&module) == 1);
    CHECK(n_lines == 2 && strstr(logged, "module"), "%d: %s", n_lines, logged);
    CHECK(listed_refusals());
    mvk_remove(&module);
    CHECK(!listed_refusals());
}

int main(int argc, char **argv)
{
    make_objects();
    CHECK(mvk_apply(MV_COMMIT, MV_ALL, NULL) == -ENODEV && mvk_add(&kernel) == -ENODEV);
    CHECK(mvk_start() == 0);
    CHECK(mvk_add(&kernel) == 1 && n_lines == 0, "%s", logged);
    if (argc > 1 && !strcmp(argv[1], "damage")) {
        damage();
        return 0;
    }
    commits();
    pointers();
    inlined();
    CHECK(n_changes > 0);
    sets();
    places();
    shortages();
    failures_end();
    refusals();
    modules();
    module_without_memory();
    names();
    return 0;
}
