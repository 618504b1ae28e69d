/* SPDX-License-Identifier: MIT
 *
 * tests/loader/config/support.h: what the tests of the configuration reader share: what it says of
 * a program.
 */
#ifndef TESTS_LOADER_CONFIG_SUPPORT_H
#define TESTS_LOADER_CONFIG_SUPPORT_H

#include "../manager/world.h"

#include "loader/config/config.h"
#include "loader/manager/pipeline.h"

#define CONF MVLD_SYSCONF_DIR "/mvld.conf"

static struct world world, *w = &world;
static const char *called;
static char why_text[512];

/* What the configuration says of app.passes for `program`, "" for nothing; the
 * sentence for an error. */
static const char *passes_of(const char *program, const char *name, int secure)
{
    static char result[512];
    static const uint8_t id[] = {0xde, 0xad, 0xbe, 0xef};
    struct pipeline_query q = {.sys = &w->sys, .log = &w->log, .envp = w->env,
                               .secure = secure, .program = program, .name = name,
                               .build_id = id, .build_id_size = sizeof(id), .called = called};
    struct config_environment env;
    static _Alignas(16) char memory[10240]; /* as stage 0 does */
    struct rimf_heap heap;
    struct config config;
    struct why why = {why_text, sizeof(why_text)};

    why_text[0] = 0;
    w->calls = w->foreign = 0;
    config_environment(&q, &env);
    memset(memory, 0, sizeof(memory));
    rimf_heap_init(&heap, &w->sys);
    rimf_heap_seed(&heap, memory, sizeof(memory));
    rimf_heap_set_alone(&heap, 1);
    int found = config_read(&q, &env, &heap, &config, &why);
    const struct config_entry *e = found > 0 ? config_find(&config, "app", "passes") : NULL;
    snprintf(result, sizeof(result), "%s",
             found < 0 ? why_text : e && e->text ? e->text : found ? "matched" : "");
    rimf_heap_destroy(&heap);
    CHECK(w->maps == 0, "%ld bytes stay mapped", w->maps);
    return result;
}

#define EXPECT(want, program, name, secure)                                       \
    do {                                                                          \
        const char *got_ = passes_of(program, name, secure);                      \
        const char *at_ = got_;                                                   \
        if (strncmp(at_, w->root, strlen(w->root)) == 0)                          \
            at_ += strlen(w->root);                                               \
        CHECK(strcmp(at_, want) == 0, "got '%s', want '%s'", at_, want);          \
    } while (0)

static inline void system_file(const char *text)
{
    world_system(w, text);
}

/* For one run people name a file as they write it. */
static const char *named(const char *path)
{
    world_clear_env(w);
    world_env(w, "MVLD_CONFIG=%s%s", w->root, path);
    return path;
}

#endif
