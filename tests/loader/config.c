/* SPDX-License-Identifier: MIT
 *
 * The configuration reader: which [app] wins for a program, and which sentence
 * each wrong file yields.  A failure means that a program gets another pipeline
 * than its configuration says, or that its user is not told why it got none.
 */
#include "world.h"

#include "config.h"

#define CONF MVLD_SYSCONF_DIR "/mvld.conf"
#define MADE MVLD_SYSCONF_DIR "/" CONFIG_MADE

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
    struct arena arena = {.sys = &w->sys, .lent = memory, .lent_size = sizeof(memory)};
    struct config config;
    struct why why = {why_text, sizeof(why_text)};

    why_text[0] = 0;
    w->calls = w->foreign = 0;
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
    world_system(w, text);
}

static void matching(void)
{
    system_file("; nothing\n[app]\nmatch = /usr/bin/a, name ,build-id:DEADBEEF\n"
                "passes = one, two\n");
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
    called = "/usr/bin/a"; /* by a shell that found it in PATH: argv[0] is no path */
    EXPECT("one", "/usr/bin/a-1.2", "a-link", 0);
    w->owner = 0;
    EXPECT("", "/usr/bin/a-1.2", "a-link", 1);
    w->owner = -1;
    called = NULL;
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
    static const char *const parts[] = {"/xdg", "/xdg/mvld", "/xdg/mvld/" CONFIG_MADE};
    static const char secure[] =
        MADE ": it counts for nothing, because of /: others may write it";
    char from[PATH_MAX], to[PATH_MAX];

    /* AT_SECURE: neither the environment nor the home counts. */
    w->owner = 0;
    EXPECT("twenty", "/a", "a", 1);
    w->denied_mode = 020; /* of the root folder, which is looked at first */
    EXPECT(secure, "/a", "a", 1);
    EXPECT(secure, "/unconcerned", "a", 1); /* not even read */
    w->denied_mode = 0;
    w->owner = 4711;
    EXPECT(MADE ": it counts for nothing, because of /: another user owns it", "/a", "a", 1);
    /* Another user's home, as after su without -: not ours to follow, as if it were not there. */
    world_clear_env(w);
    world_env(w, "XDG_CONFIG_HOME=/xdg");
    EXPECT("twenty", "/a", "a", 0);
    w->owner = -1;
    for (size_t i = 0; i < RIMF_COUNT(parts); i++) {
        somebody_may_write(parts[i], 0757);
        somebody_may_write(parts[i], 0775); /* a group that is not the user's own */
    }
    /* A link counts as what it leads to. */
    snprintf(from, sizeof(from), "%s/xdg/mvld", w->root);
    snprintf(to, sizeof(to), "%s/xdg/other", w->root);
    CHECK(rename(from, to) == 0 && symlink("other", from) == 0, "%s", from);
    EXPECT("xdg", "/a", "a", 0);
    CHECK(chmod(to, 0757) == 0, "%s", to);
    EXPECT("twenty", "/a", "a", 0);
    CHECK(chmod(to, 0755) == 0 && unlink(from) == 0 && rename(to, from) == 0, "%s", to);
    /* But the file is none, for it could lead to a device, of whomever. */
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

/* The sentence that the text in mvld.conf yields for any program at all. */
static void refuses(const char *text, const char *sentence)
{
    char want[512];

    system_file(text);
    snprintf(want, sizeof(want), CONF "%s", sentence);
    EXPECT(want, "/unconcerned", "unconcerned", 0);
}

static void wrong_lines(void)
{
    refuses("[app\nmatch = a\n", ":1: the section's ']' is missing");
    refuses("\n[app] x\n", ":2: there is text behind the section's ']'");
    refuses("[App]\n", ":1: a section's name has only a-z, 0-9 and '-'");
    refuses("[]\n", ":1: a section's name has only a-z, 0-9 and '-'");
    refuses("match = a\n", ":1: 'match' stands before the first [app]");
    refuses("[concat]\n", ":1: [concat] belongs to no program: an [app] must come before it");
    refuses("[app]\npasses = a\n",
            ":1: this [app] does not say which program: it has no 'match'");
    refuses("[app]\nmatch = a\n\n[app]\n[x]\n[app]\nmatch = b\n",
            ":4: this [app] does not say which program: it has no 'match'");
    refuses("[app]\nmatch = a\nmatch = b\n", ":3: 'match' is said twice in this [app]");
    refuses("[app]\nmatch =\n", ":2: 'match' is empty");
    refuses("[app]\nmatch = a,,b\n", ":2: an element of 'match' is empty");
    refuses("[app]\nmatch = bin/a\n",
            ":2: 'bin/a' is neither an absolute path nor a name without '/'");
    refuses("[app]\nmatch = /usr/bin/*\n",
            ":2: '/usr/bin/*': there are no patterns, '*' alone means every program");
    refuses("[app]\nmatch = build-id:xyz\n",
            ":2: 'build-id:xyz' is no build-id: an even number of hexadecimal digits");
    refuses("[app]\nmatch = build-id:abc\n",
            ":2: 'build-id:abc' is no build-id: an even number of hexadecimal digits");
    refuses("[app]\nmatch = a\npasses = a b\n", ":3: 'a b' is no name of a pass");
    refuses("[app]\nmatch = a\npasses = app\n", ":3: 'app' is no name of a pass");
    refuses("[app]\nmatch = a\nplacement = far\n",
            ":3: 'far' is no placement; it is one of near, huge, as-is");
    refuses("[app]\nmatch = a\npatch = rwx\n",
            ":3: 'rwx' is no patch; it is one of auto, mprotect, remap, selfmem, word");
    refuses("[app]\nmatch = a\ncolour = red\n",
            ":3: [app] has no key 'colour'; it has match, passes, placement, patch, on-miss");
    refuses("[app]\nmatch = a\nnonsense\n", ":3: the line is neither [section] nor key = value");
    refuses("[app]\n = a\n", ":2: there is no key before '='");
    refuses("[app]\nma tch = a\n", ":2: the key has a character that no key has");
    refuses("[app]\nmatch = \"a\n", ":2: the closing quote is missing");
    refuses("[app]\nmatch = \"a\" b\n", ":2: there is text behind the closing quote");
    refuses("[app]\nmatch = a\"b\"\n", ":2: a quote stands only at the start of a value");
    refuses("[app]\nmatch = \"a\\n\"\n",
            ":2: inside quotes a backslash stands only before a quote or a backslash");
    refuses("[app]\nmatch = a\nsecret\x07 = b\n",
            ":3: the line has a control character, the file is not text");
    refuses("[app]\nmatch = a \r ; x\n",
            ":2: the line has a control character, the file is not text");
}

static void what_is_allowed(void)
{
    system_file("\xef\xbb\xbf# comment\r\n ; comment\r\n\t[ app ] ; why\r\n"
                "match\t=  \"/a;b, \\\"c\\\"\" ,x;y ; comment\r\n\r\npasses=p;comment?\r\n");
    CHECK(strstr(passes_of("/a;b, \"c\"", "", 0), "'p;comment?' is no name"), "%s", why_text);
    system_file("\xef\xbb\xbf# comment\r\n ; comment\r\n\t[ app ] ; why\r\n"
                "match\t=  \"/a;b, \\\"c\\\"\" ,x;y ; comment\r\n\r\npasses=p, ;comment");
    EXPECT("p,", "/a;b, \"c\"", "", 0);
    EXPECT("p,", "/x;y", "", 0);
    EXPECT("", "/x", "", 0);
    system_file("");
    EXPECT("", "/a", "", 0);
    system_file("[app]\nmatch = \"*\"\npasses = p\n"); /* quotes change nothing here */
    EXPECT("p", "/a", "", 0);
}

/* For one run people name a file as they write it. */
static const char *named(const char *path)
{
    world_clear_env(w);
    world_env(w, "MVLD_CONFIG=%s%s", w->root, path);
    return path;
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

/* Many keys: refused in the end, and not after a minute. */
static void very_many_keys(void)
{
    static char text[1024 * 1024];
    size_t used = (size_t)sprintf(text, "[app]\nmatch = *\npasses = p\n[p]\n");

    for (unsigned i = 0; used < sizeof(text) - 64 && i < 20000; i++)
        used += (size_t)sprintf(text + used, "set.%u = %u\n", i, i);
    world_file(w, named("/conf"), text, used);
    EXPECT("/conf:10003: there are more than 10000 keys for one program", "/a", "", 0);
    world_clear_env(w);
}

static void wrong_tunables(void)
{
    static const struct {
        const char *text, *sentence;
    } table[] = {
        {"x", "'x' is not pass.option=value"},
        {"x.y", "'x.y' is not pass.option=value"},
        {"x=y.z", "'x=y.z' is not pass.option=value"},
        {".y=z", "'.y=z' is not pass.option=value"},
        {"x.=z", "'x.=z' is not pass.option=value"},
        {"X.y=z", "'X.y=z' is not pass.option=value"},
        {"x.y=a\\b", "a backslash stands only before ':' or a backslash"},
        {"x.y=a\\", "a backslash stands only before ':' or a backslash"},
        {"x.y=\n", "there is a control character"},
        {"app.match=*", "app.match cannot be set: the program is this one"},
        {"app.passes=a,B", "'B' is no name of a pass"},
        {"app.patch=x", "'x' is no patch; it is one of auto, mprotect, remap, selfmem, word"},
        {"app.x=y", "[app] has no key 'x'; it has match, passes, placement, patch, on-miss"},
    };

    system_file("");
    for (size_t i = 0; i < RIMF_COUNT(table); i++) {
        char want[256];
        world_env(w, "MVLD_TUNABLES=%s", table[i].text);
        snprintf(want, sizeof(want), "MVLD_TUNABLES: %s", table[i].sentence);
        EXPECT(want, "/a", "a", 0);
        world_clear_env(w);
    }
    world_env(w, "MVLD_TUNABLES=app.passes=%05000d", 1);
    EXPECT("MVLD_TUNABLES: one item is longer than 4096 bytes", "/a", "a", 0);
    world_clear_env(w);
    world_env(w, "MVLD_TUNABLES=::app.passes=a,b::x.y=z:app.passes=c:");
    EXPECT("c", "/a", "a", 0); /* the last wins */
    world_clear_env(w);
    world_env(w, "MVLD_TUNABLES=x.y=z"); /* for a program that has no pipeline: nothing */
    EXPECT("", "/a", "a", 0);
    world_clear_env(w);
}

int main(void)
{
    world_begin(w);
    unconcerned();
    matching();
    wrong_lines();
    what_is_allowed();
    no_text_files();
    not_made_files();
    very_many_keys();
    wrong_tunables();
    order_of_files();
    whom_to_believe();
    world_end(w);
    return failures != 0;
}
