/* SPDX-License-Identifier: MIT
 *
 * The configuration reader: which [app] wins for a program, and which sentence
 * each wrong file yields.  A failure means that a program gets another pipeline
 * than its configuration says, or that its user is not told why it got none.
 */
#include "world.h"

#include "config.h"

static struct world world, *w = &world;
static char why_text[512];

/* What the configuration says of app.passes for `program`, "" for nothing; the
 * sentence for an error. */
static const char *passes_of(const char *program, const char *name, int secure)
{
    static char result[512];
    static const uint8_t id[] = {0xde, 0xad, 0xbe, 0xef};
    struct pipeline_query q = {&w->sys, &w->log, w->env, secure, program, name, id, sizeof(id)};
    struct config_environment env;
    struct arena arena = {.sys = &w->sys};
    struct config config;
    struct why why = {why_text, sizeof(why_text)};

    why_text[0] = 0;
    w->calls = 0;
    config_environment(&q, &env);
    int found = config_read(&q, &env, &arena, &config, &why);
    const struct config_entry *e = found > 0 ? config_find(&config, "app", "passes") : NULL;
    snprintf(result, sizeof(result), "%s",
             found < 0 ? why_text : e && e->text ? e->text : found ? "matched" : "");
    arena_free(&arena);
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

static void system_file(const char *text)
{
    world_text(w, MVLD_SYSCONF_DIR "/mvld.conf", text);
}

static void matching(void)
{
    system_file("; nothing\n[app]\nmatch = /usr/bin/a, name ,build-id:DEADBEEF\npasses = one, two\n");
    EXPECT("one, two", "/usr/bin/a", "x", 0);
    EXPECT("one, two", "/opt/name", "/bin/x", 0);
    EXPECT("one, two", "/usr/bin/deadbeef", "q", 0); /* by build-id */
    system_file("[app]\nmatch = /usr/bin/a, name\npasses = one\n");
    EXPECT("", "/usr/bin/b", "b", 0);
    EXPECT("", "/name/b", "other", 0);
    EXPECT("one", "/usr/bin/b", "/somewhere/name", 0);
    EXPECT("one", NULL, "name", 0);
    EXPECT("one", "/usr/bin/a-1.2", "/usr/bin/a", 0); /* called through a symbolic link */
    EXPECT("", NULL, NULL, 0);
    /* The caller chooses the name, so a program with more rights ignores it. */
    w->owner = 0;
    EXPECT("", "/usr/bin/b", "name", 1);
    EXPECT("one", "/usr/bin/name", "b", 1);
    w->owner = -1;
    /* The last [app] that matches wins whole; sections belong to the one above. */
    system_file("[app]\nmatch=*\npasses=one\nplacement=near\n[one]\nk=1\n"
                "[app]\nmatch = \"/a b\"\npasses=two\n[app]\nmatch=c\n");
    EXPECT("one", "/x", "x", 0);
    EXPECT("two", "/a b", "", 0);
    EXPECT("matched", "/c", "", 0);
}

static void order_of_files(void)
{
    system_file("[app]\nmatch = *\npasses = main\n");
    EXPECT("main", "/a", "a", 0);
    world_text(w, MVLD_SYSCONF_DIR "/apps.d/20.conf", "[app]\nmatch = a\npasses = twenty\n");
    world_text(w, MVLD_SYSCONF_DIR "/apps.d/100.conf", "[app]\nmatch = a\npasses = hundred\n");
    world_text(w, MVLD_SYSCONF_DIR "/apps.d/30.conf~", "nonsense");
    world_text(w, MVLD_SYSCONF_DIR "/apps.d/.30.conf", "nonsense");
    EXPECT("twenty", "/a", "a", 0);
    world_text(w, "/home/.config/mvld/apps.d/a.conf", "[app]\nmatch = a\npasses = home\n");
    world_env(w, "HOME=%s/home", w->root);
    EXPECT("home", "/a", "a", 0);
    world_text(w, "/xdg/mvld/apps.d/a.conf", "[app]\nmatch = a\npasses = xdg\n");
    world_env(w, "XDG_CONFIG_HOME=%s/xdg", w->root);
    EXPECT("xdg", "/a", "a", 0);
    world_text(w, "/own.conf", "[app]\nmatch = a\npasses = own\n");
    world_env(w, "MVLD_CONFIG=%s/own.conf", w->root);
    EXPECT("own", "/a", "a", 0);
    world_env(w, "MVLD_TUNABLES=app.passes=tune:other.k=a\\:b\\\\c");
    EXPECT("tune", "/a", "a", 0);
    /* AT_SECURE: neither the environment nor the home counts. */
    w->owner = 0;
    EXPECT("twenty", "/a", "a", 1);
    w->denied_mode = 020;
    EXPECT(MVLD_SYSCONF_DIR "/mvld.conf: a program with special rights (AT_SECURE) takes only "
           "files that root owns and nobody else can write", "/a", "a", 1);
    w->denied_mode = 0;
    w->owner = 4711;
    EXPECT(MVLD_SYSCONF_DIR "/mvld.conf: a program with special rights (AT_SECURE) takes only "
           "files that root owns and nobody else can write", "/a", "a", 1);
    /* Another user's home, as after su without -: not ours to follow. */
    CHECK(strstr(passes_of("/a", "a", 0), "it belongs to user 4711") != NULL, "%s", why_text);
    w->owner = -1;
    world_clear_env(w);
    for (int i = 0; i < 300; i++) { /* more than one getdents buffer */
        char path[128], text[64];
        snprintf(path, sizeof(path), MVLD_SYSCONF_DIR "/apps.d/many-%03d.conf", i * 7 % 300);
        snprintf(text, sizeof(text), "[app]\nmatch = a\npasses = p%03d\n", i * 7 % 300);
        world_text(w, path, text);
    }
    EXPECT("p299", "/a", "a", 0);
}

int main(void)
{
    world_begin(w);
    EXPECT("", "/bin/true", "true", 0);
    CHECK(w->calls == 1, "no configuration costs %u calls", w->calls);
    matching();
    order_of_files();
    world_end(w);
    return failures != 0;
}
