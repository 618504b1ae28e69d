/* SPDX-License-Identifier: MIT
 *
 * Where the pass manager looks for passes and their libraries, for whom, and what it does when the
 * kernel refuses it.  A failure means that a program gets a pass or a library from another place
 * than it should, or that a plan crashes or leaks.
 *
 * Argument: the folder of the probes and of the bad passes.
 */
#include "support.h"

static void finds_libraries(void)
{
    struct pipeline *p = plan(APP "passes = first, second\n");

    CHECK(p && !pipeline_library(p, 0), "there is none");
    pipeline_free(p);
    refuses(APP "passes = relative-library\n",
            "its library 'some/library.so' is neither a name nor an absolute path");
    p = plan(APP "passes = absolute-library\n");
    CHECK(p && !strcmp(pipeline_library(p, 0), "/bin/sh"), "absolute");
    pipeline_free(p);
    world_text(w, MVLD_LIB_DIR "/libfirst.so.1", "x");
    p = plan(APP "passes = first, second\n");
    CHECK(p && !strcmp(pipeline_library(p, 0), MVLD_LIB_DIR "/libfirst.so.1"), "libdir");
    CHECK(p && !pipeline_library(p, 1), "only one");
    pipeline_free(p);
    world_text(w, "/more/libfirst.so.1", "x");
    world_env(w, "MVLD_PASS_PATH=/nowhere:%s/more", w->root);
    p = plan(APP "passes = first, second\n");
    CHECK(p && strstr(pipeline_library(p, 0), "/more/libfirst.so.1"), "MVLD_PASS_PATH");
    pipeline_free(p);
    world_text(w, MVLD_PASS_DIR "/libfirst.so.1", "x");
    p = plan(APP "passes = first, second\n");
    CHECK(p && !strcmp(pipeline_library(p, 0), MVLD_PASS_DIR "/libfirst.so.1"), "beside");
    pipeline_free(p);
    world_clear_env(w);
}

static void secure_programs(void)
{
    struct pipeline_query q = {.sys = &w->sys, .log = &w->log, .envp = w->env, .secure = 1,
                               .program = "/usr/bin/program"};
    struct pipeline *p = NULL;

    world_system(w, APP "passes = first\n");
    world_env(w, "MVLD_PASS_PATH=%s/elsewhere", w->root);
    world_text(w, "/elsewhere/first.so", "nonsense");
    refuses(NULL, "/elsewhere/first.so: this is no 64-bit x86-64 ELF file");
    w->owner = 0;
    CHECK(pipeline_plan(&q, &p, why, sizeof(why)) == 0 && p, "%s", why);
    pipeline_free(p);
    w->denied_mode = 002;
    CHECK(pipeline_plan(&q, &p, why, sizeof(why)) == -EPERM && strstr(why, "others may write it"), "%s",
          why);
    w->denied_mode = 0;
    w->owner = -1;
    world_clear_env(w);
    world_env(w, "MVLD_PASS_PATH=here:%s/elsewhere", w->root);
    refuses(NULL, "MVLD_PASS_PATH: 'here' is no absolute path");
    world_clear_env(w);
}

/* Each system call fails in turn: an error or a plan, never a crash or a leak. */
static void survives_failing_calls(void)
{
    static const int errors[] = {ENOMEM, EACCES, ENOENT, EINTR, EIO};
    unsigned refused = 0;

    world_system(w, APP "passes = first, second\n");
    for (size_t e = 0; e < RIMF_COUNT(errors); e++)
        for (w->fail_at = 1; w->fail_at < 200; w->fail_at++) {
            struct pipeline_query q = {.sys = &w->sys, .envp = w->env,
                                       .program = "/usr/bin/program"};
            struct pipeline *p = NULL;
            w->calls = 0;
            w->fail_error = errors[e];
            int error = pipeline_plan(&q, &p, why, sizeof(why));
            refused += error < 0;
            CHECK(error == 0 || (!p && *why), "no reason");
            unsigned calls = w->calls;
            pipeline_free(p);
            if (calls < w->fail_at)
                break;
            CHECK(w->maps == 0, "%ld bytes stay mapped", w->maps);
        }
    w->fail_at = 0;
    CHECK(refused > 40, "%u", refused);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    world_begin(w);
    install_probes(argv[1]);
    finds_libraries();
    secure_programs();
    survives_failing_calls();
    world_end(w);
    return failures != 0;
}
