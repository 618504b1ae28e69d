/* SPDX-License-Identifier: MIT
 *
 * realise FIRST SECOND: a pass removes a function of each library; what it wants is made while each system call fails in
 * turn, each time in a process of its own.  A failure means that of a pass whose edits could not be made some are there,
 * or that the image does not know what is.
 *
 * Or: a section that a pass added is removed when another event comes, though its code may use it; one of two sections
 * is protected; code of a pass that failed, to which its patches may lead, cannot be executed.
 */
#include "../image/process.h"

#include "rimf/analyze/analyser.h"
#include "rimf/realise/realise.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/wait.h>

static long calls, fails_at;

static long faulty(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e, long f)
{
    (void)sys;
    return ++calls == fails_at ? -ENOMEM : rimf_syscall(nr, a, b, c, d, e, f);
}

static const struct rimf_sys kernel = {faulty};
static struct process process;
static struct analysis_place place;
static char folder[] = "/tmp/realise-XXXXXX";

/* The libraries' functions of one name, and what they hold. */
static uintptr_t entries[2];
static uint8_t bytes[2][16];
static struct mvld_image *image;
static struct mvld_context context = {.pass = "removes"};

static void load(size_t i, const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    struct analyser a = {0};

    CHECK(handle, "(%s)", dlerror());
    CHECK(analyser_run(&a, path) == 0 && analysis_write(&a, folder) == 0, "%s: %s", path, a.object.error);
    analyser_free(&a);
    entries[i] = (uintptr_t)dlsym(handle, "unused");
    CHECK(entries[i]);
    memcpy(bytes[i], (const void *)entries[i], sizeof bytes[i]);
}

static int remove_unused(void *unused, const struct mvld_function *f)
{
    (void)unused;
    return f->name && !strcmp(f->name, "unused") ? context.api->code_remove(&context, f, MVLD_REMOVE_EXPORTED) : 0;
}

static void make_image(void)
{
    struct rimf_change change;

    place = (struct analysis_place){.folder = folder, .user = getuid()};
    process_read(&process);
    CHECK(rimf_image_create(&kernel, &process_log, &image) == 0);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    rimf_image_feeder(image)->analyses[0] = place;
    rimf_image_feeder(image)->n_analyses = 1;
    context.image = image;
    context.api = rimf_api();
}

static void want(void)
{
    const char *why = "";

    rimf_image_set_stage(image, RIMF_STAGE_RUN, &context);
    for (size_t i = 0; i < 2; i++)
        CHECK(context.api->function_each(image, context.api->object_find(image, entries[i]), remove_unused, NULL, &why) == 0,
              "(%s)", why);
    CHECK(image->removals.n == 2, "(%zu: %s)", image->removals.n, context.api->last_error(image));
    rimf_image_set_stage(image, RIMF_STAGE_NONE, &context);
    CHECK(rimf_pass_ran(image, &context) == 0, "(%s)", context.api->last_error(image));
    rimf_image_set_stage(image, RIMF_STAGE_NONE, NULL);
}

/* Whether the call to fail was made. */
static int fails(long number)
{
    pid_t child = fork();
    int status, error;

    if (child) {
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 1, "(call %ld)",
              number);
        return WEXITSTATUS(status) == 2;
    }
    make_image();
    want();
    calls = 0;
    fails_at = number;
    error = rimf_image_emit(image);
    for (size_t i = 0; i < 2; i++) {
        int is_there = !memcmp((const void *)entries[i], bytes[i], sizeof bytes[i]);

        CHECK(is_there == (error != 0), "(call %ld, error %d, library %zu)", number, error, i);
        CHECK(rimf_is_removed(image, entries[i]) == !is_there, "(call %ld)", number);
    }
    rimf_pass_failed(image, &context); /* in a later event, say */
    CHECK(rimf_is_removed(image, entries[1]) == !error);
    _exit(calls >= number ? 2 : 0);
}

static long room(void *cookie, size_t size)
{
    (void)cookie;
    return (long)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void sections(void)
{
    const struct mvld_section *section;
    struct rimf_change change;
    volatile uint8_t *data;

    make_image();
    rimf_image_feeder(image)->room = room;
    rimf_image_set_stage(image, RIMF_STAGE_RUN, &context);
    data = context.api->section_add(&context, MVLD_SECTION_DATA, 8);
    section = context.api->section_at(image, NULL, 0);
    CHECK(data && section && section->address == (uintptr_t)data);
    CHECK(rimf_pass_ran(image, &context) == 0);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    CHECK(context.api->section_remove(&context, section) == -EBUSY);
    *data = 1;
    rimf_image_destroy(image);
}

static const struct mvld_section *section_of(const volatile uint8_t *at)
{
    const struct mvld_section *section = NULL;

    for (size_t i = 0; (section = context.api->section_at(image, NULL, i)) && section->address != (uintptr_t)at;)
        i++;
    CHECK(section);
    return section;
}

/* The kernel says. */
static int can_read(const volatile uint8_t *at)
{
    int ends[2], can;

    CHECK(!pipe(ends));
    can = write(ends[1], (const void *)(uintptr_t)at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return can;
}

/* The second section cannot be protected, and then both can. */
static void protections(void)
{
    volatile uint8_t *data[2];

    make_image();
    rimf_image_feeder(image)->room = room;
    for (int i = 0; i < 2; i++) {
        rimf_image_set_stage(image, RIMF_STAGE_RUN, &context);
        for (int k = 0; k < 2; k++) {
            data[k] = context.api->section_add(&context, MVLD_SECTION_DATA, 8);
            CHECK(data[k]);
            CHECK(context.api->section_protect(&context, section_of(data[k]), PROT_NONE, -1) == 0);
            CHECK(context.api->section_protect(&context, section_of(data[k]), PROT_READ, -1) == -EEXIST);
        }
        rimf_image_set_stage(image, RIMF_STAGE_NONE, &context);
        CHECK(rimf_pass_ran(image, &context) == 0);
        rimf_image_set_stage(image, RIMF_STAGE_NONE, NULL);
        calls = 0;
        fails_at = i ? -1 : 2;
        CHECK((rimf_image_emit(image) == 0) == i);
        for (int k = 0; k < 2; k++) {
            CHECK((section_of(data[k])->prot == PROT_NONE) == i);
            CHECK((can_read(data[k]) == 0) == i);
        }
    }
    rimf_image_destroy(image);
}

static void failed(void)
{
    uint8_t *code;

    make_image();
    rimf_image_feeder(image)->room = room;
    rimf_image_set_stage(image, RIMF_STAGE_RUN, &context);
    code = context.api->section_add(&context, MVLD_SECTION_CODE, 1);
    CHECK(code);
    *code = 0xc3; /* ret */
    rimf_image_set_stage(image, RIMF_STAGE_NONE, &context);
    rimf_pass_failed(image, &context);
    ((void (*)(void))code)();
    rimf_image_destroy(image);
}

int main(int argc, char **argv)
{
    long number = 1;
    char command[64];

    CHECK(argc == 3 && mkdtemp(folder));
    load(0, argv[1]);
    load(1, argv[2]);
    while (fails(number))
        number++;
    CHECK(number > 5, "(%ld)", number);
    sections();
    protections();
    failed();
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0;
}
