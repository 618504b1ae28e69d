/* SPDX-License-Identifier: MIT
 *
 * The configuration reader, files: which are read, in which order, whom they must belong to, and what
 * programs pay for which nothing is configured.  A failure means that somebody else's file
 * counts, or that a program is held up, or killed, by a configuration for others.
 */
#include "support.h"

#define MADE MVLD_SYSCONF_DIR "/" CONFIG_MADE

/* The user's, made of one file. */
static void users_file(const char *folder, const char *pass)
{
    char path[PATH_MAX], text[512];

    snprintf(path, sizeof(path), "%s/mvld/" CONFIG_MADE, folder);
    snprintf(text, sizeof(text), "@/a/\n@ %s/mvld/apps.d/a.conf\n[app]\nmatch = a\npasses = %s\n", folder, pass);
    world_text(w, path, text);
}

/* What is found, and not named by the user, must not be everybody's to write. */
static void everybody_may_write(const char *path, unsigned mode)
{
    char whole[PATH_MAX], want[PATH_MAX + 64];

    snprintf(whole, sizeof(whole), "%s%s", w->root, path);
    snprintf(want, sizeof(want), "%s: everybody may write it", path);
    CHECK(chmod(whole, mode | 02) == 0, "%s", whole);
    EXPECT(want, "/a", "a", 0);
    EXPECT("tune", "/unconcerned", "unconcerned", 0);
    CHECK(chmod(whole, mode) == 0, "%s", whole);
    EXPECT("tune", "/a", "a", 0);
}

/* The user's files count for nothing while that is so, and the system's count. */
static void somebody_may_write(const char *path, unsigned mode)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof(whole), "%s%s", w->root, path);
    CHECK(chmod(whole, mode) == 0, "%s", whole);
    EXPECT("twenty", "/a", "a", 0);
    CHECK(chmod(whole, 0755) == 0, "%s", whole);
    EXPECT("xdg", "/a", "a", 0);
    if (geteuid() != 0)
        return; /* nobody else can give files away */
    CHECK(chown(whole, 4711, (gid_t)-1) == 0, "%s", whole);
    EXPECT("twenty", "/a", "a", 0);
    CHECK(chown(whole, 0, (gid_t)-1) == 0, "%s", whole);
}

static void whom_to_believe(void)
{
    static const char *const parts[] = {"/xdg", "/xdg/mvld", ("/xdg/mvld/" CONFIG_MADE)};
    const int first = (int)strcspn(&MVLD_SYSCONF_DIR[1], "/") + 1; /* of its path, the part that is looked at first */
    char from[PATH_MAX], to[PATH_MAX], secure[PATH_MAX];

    /* AT_SECURE: neither the environment nor the home counts. */
    w->owner = 0;
    EXPECT("twenty", "/a", "a", 1);
    w->denied_mode = 020;
    snprintf(secure, sizeof secure, MADE ": it counts for nothing, because of %.*s: others may write it", first,
             MVLD_SYSCONF_DIR);
    EXPECT(secure, "/a", "a", 1);
    EXPECT(secure, "/unconcerned", "a", 1); /* not even read */
    w->denied_mode = 0;
    w->owner = 4711;
    snprintf(secure, sizeof secure, MADE ": it counts for nothing, because of %.*s: another user owns it", first,
             MVLD_SYSCONF_DIR);
    EXPECT(secure, "/a", "a", 1);
    /* Another user's home, as after su without -: not ours to follow, as if it were not there. */
    world_clear_env(w);
    world_env(w, "XDG_CONFIG_HOME=/xdg");
    EXPECT("twenty", "/a", "a", 0);
    w->owner = -1;
    for (size_t i = 0; i < RIMF_COUNT(parts); i++) {
        somebody_may_write(parts[i], 0757);
        if (!geteuid() || getegid() != geteuid())
            somebody_may_write(parts[i], 0775); /* a group that is not the user's own */
    }
    /* A link counts as its target. */
    snprintf(from, sizeof(from), "%s/xdg/mvld", w->root);
    snprintf(to, sizeof(to), "%s/xdg/other", w->root);
    CHECK(rename(from, to) == 0 && symlink("other", from) == 0, "%s", from);
    EXPECT("xdg", "/a", "a", 0);
    CHECK(chmod(to, 0757) == 0, "%s", to);
    EXPECT("twenty", "/a", "a", 0);
    CHECK(chmod(to, 0755) == 0 && unlink(from) == 0 && rename(to, from) == 0, "%s", to);
    /* But the file itself must be no link, because that could name anybody's device. */
    snprintf(from, sizeof(from), "%s/xdg/mvld/" CONFIG_MADE, w->root);
    CHECK(rename(from, to) == 0 && symlink(to, from) == 0, "%s", from);
    EXPECT("twenty", "/a", "a", 0);
    CHECK(rename(to, from) == 0, "%s", to);
    /* What is wrong in a file that counts for nothing is not said either. */
    world_text(w, "/xdg/mvld/" CONFIG_MADE, "nonsense");
    EXPECT("/xdg/mvld/" CONFIG_MADE ": this was not made by `mvld config'", "/a", "a", 0);
    CHECK(chmod(from, 0666) == 0, "%s", from);
    EXPECT("twenty", "/a", "a", 0);
    CHECK(chmod(from, 0644) == 0, "%s", from);
    users_file("/xdg", "xdg");
    world_env(w, "MVLD_TUNABLES=app.passes=tune");
    everybody_may_write(MVLD_SYSCONF_DIR, 0755);
    everybody_may_write(MADE, 0644);
    world_clear_env(w);
}

static void order_of_files(void)
{
    system_file("[app]\nmatch = *\npasses = main\n");
    EXPECT("main", "/a", "a", 0);
    world_text(w, MADE, "@/a/wrong/\n@ " CONF "\n[app]\nmatch = a\npasses = hundred\n"
                        "@ " MVLD_SYSCONF_DIR "/apps.d/b.conf\n\n"
                        "@ " MVLD_SYSCONF_DIR "/apps.d/c.conf\n[app]\nmatch = a\npasses = twenty\n"
                        "[app]\nmatch = wrong\n[q]\nk = 1\n\nk = 2\n");
    EXPECT("twenty", "/a", "a", 0);
    EXPECT(MVLD_SYSCONF_DIR "/apps.d/c.conf:9: 'k' of [q] is said twice, first in line 7", "/wrong", "", 0);
    users_file("/home/.config", "home");
    world_env(w, "HOME=/home");
    EXPECT("home", "/a", "a", 0);
    users_file("/xdg", "xdg");
    world_env(w, "XDG_CONFIG_HOME=/xdg");
    EXPECT("xdg", "/a", "a", 0);
    world_text(w, "/own.conf", "[app]\nmatch = a\npasses = own\n");
    world_env(w, "MVLD_CONFIG=%s/own.conf", w->root);
    EXPECT("own", "/a", "a", 0);
    world_env(w, "MVLD_TUNABLES=app.passes=tune:other.k=a\\:b\\\\c");
    EXPECT("tune", "/a", "a", 0);
}

/* The system's of so many programs, listed as `mvld config' lists them. */
static void programs(unsigned n)
{
    static char text[128 * 1024];
    size_t used = (size_t)sprintf(text, "@/");

    for (unsigned i = 0; i < n; i++)
        used += (size_t)sprintf(text + used, "%u/", i);
    used += (size_t)sprintf(text + used, "build-id:deadbeef00/name/\n@ " CONF "\n");
    for (unsigned i = 0; i < n; i++)
        used += (size_t)sprintf(text + used, "[app]\nmatch = /usr/bin/%u\npasses = p\n", i);
    sprintf(text + used, "[app]\nmatch = build-id:DEADBEEF00, name\npasses = last\n");
    world_text(w, MADE, text);
}

/* Programs for which nothing is configured. */
static void unconcerned(void)
{
    static const unsigned calls[][2] = {{1, 8}, {200, 7}, {1500, 11}}; /* the list needs no more than one read, or more */

    world_env(w, "HOME=/home");
    EXPECT("", "/bin/true", "true", 0);
    CHECK(w->calls == 2 && !w->foreign, "no configuration costs %u calls", w->calls);
    users_file("/home/.config", "home");
    for (size_t i = 0; i < RIMF_COUNT(calls); i++) {
        programs(calls[i][0]);
        EXPECT("", "/bin/true", "true", 0);
        CHECK(w->calls == calls[i][1] && !w->foreign,
              "%u others cost %u calls, %u of them others than the host loader's", calls[i][0], w->calls,
              w->foreign);
        EXPECT("p", "/usr/bin/0", "", 0);
        EXPECT("", "/bin/0", "0", 0); /* read, and not meant */
        CHECK(!w->foreign, "%u calls others than the host loader's", w->foreign);
        EXPECT("last", "/bin/x", "name", 0);
        EXPECT("last", "/bin/name", "x", 0);
        called = "/usr/bin/0";
        EXPECT("p", "/bin/x", "x", 0);
        called = NULL;
    }
    EXPECT("home", "/bin/a", "a", 0);
    CHECK(w->foreign, "what is obeyed was not looked at");
    world_clear_env(w);
}

static void no_text_files(void)
{
    static char large[1024 * 1024 + 1];
    char path[PATH_MAX];

    system_file("");
    world_file(w, named("/conf"), "[app]\nmatch\0= a\n", 17);
    EXPECT("/conf:2: the line has a control character, the file is not text", "/a", "", 0);
    memset(large, ' ', sizeof(large));
    world_file(w, "/conf", large, sizeof(large));
    EXPECT("/conf: the file is larger than 1 MiB", "/a", "", 0);
    world_file(w, "/conf", large, sizeof(large) - 1);
    EXPECT("/conf:1: the line is longer than 4096 bytes", "/a", "", 0);
    for (size_t i = 99; i < sizeof(large); i += 100)
        large[i] = '\n';
    memcpy(large + sizeof(large) - 101, "[app]\nmatch=a\npasses=last\n", 26);
    world_file(w, "/conf", large, sizeof(large) - 1);
    EXPECT("last", "/a", "", 0);
    snprintf(path, sizeof(path), "%s/conf", w->root);
    if (truncate(path, 100L << 20))
        exit(1);
    EXPECT("/conf: the file is larger than 1 MiB", "/a", "", 0);
    unlink(path);
    mkdir(path, 0755);
    EXPECT("/conf: this is no regular file", "/a", "", 0);
    rmdir(path);
    if (mkfifo(path, 0644))
        exit(1);
    alarm(5); /* a reader that waits for a writer dies here */
    EXPECT("/conf: this is no regular file", "/a", "", 0);
    unlink(path);
    if (symlink("conf", path))
        exit(1);
    EXPECT("/conf: the file is a symbolic link to itself (error 40)", "/a", "", 0);
    unlink(path);
    EXPECT("/conf: the file does not exist (error 2)", "/a", "a", 0);
    world_clear_env(w);
    world_env(w, "MVLD_CONFIG=/dev/null");
    EXPECT("/dev/null: this is no regular file", "/a", "", 0);
    world_clear_env(w);
    world_env(w, "HOME=/dev/null"); /* as many daemons have */
    EXPECT("", "/a", "", 0);
    world_clear_env(w);
}

/* The same of what is made, where nobody needs to have made it. */
static void not_made_files(void)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s" MADE, w->root);
    world_text(w, MADE, "[app]\nmatch = *\npasses = p\n");
    EXPECT(MADE ": this was not made by `mvld config'", "/a", "a", 0);
    world_text(w, MADE, "@ /x\n[app]\nmatch = *\n");
    EXPECT(MADE ": this was not made by `mvld config'", "/a", "a", 0);
    world_text(w, MADE, "@/*/\n@ /x");
    EXPECT(MADE ": this was not made by `mvld config'", "/a", "a", 0);
    world_text(w, MADE, "@/*/\n@ /x\n[app]\n");
    EXPECT("/x:1: this [app] does not say which program: it has no 'match'", "/a", "a", 0);
    world_text(w, MADE, "@/*/\n@ /x\n[app]\nmatch = a\npasses = p\n[p]\n@ y = 1\n");
    EXPECT("p", "/a", "a", 0); /* such a line begins the next file: `mvld config' refuses it */
    unlink(path);
    mkdir(path, 0755);
    EXPECT(MADE ": this is no regular file", "/a", "a", 0);
    rmdir(path);
    if (mkfifo(path, 0644))
        exit(1);
    alarm(5);
    EXPECT(MADE ": this is no regular file", "/a", "a", 0);
    alarm(0);
    unlink(path);
    /* May not be read: said so even where the test runs as root. */
    system_file("");
    w->fail_at = 1;
    w->fail_error = EACCES;
    EXPECT(MADE ": the file may not be read (error 13)", "/a", "", 0);
    w->fail_at = 0;
}

int main(void)
{
    world_begin(w);
    unconcerned();
    no_text_files();
    not_made_files();
    order_of_files();
    whom_to_believe();
    world_end(w);
    return failures != 0;
}
