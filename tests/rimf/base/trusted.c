/* SPDX-License-Identifier: MIT
 *
 * Paths that nobody else steers.  A failure means: another user decides which file a
 * program of root's or of a user's obeys, or a file of one's own counts for nothing.
 * Where the test does not run as root, everything is its own user's, and asked for others.
 */
#include "rimf/base/trusted.h"

#include "../../check.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#define OTHER 4711u

static char root[] = "/tmp/mvld-trusted-XXXXXX";
static uint32_t user; /* whose the tree is */
static unsigned calls, fail_at;

static long call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e, long f)
{
    (void)sys;
    if (nr != SYS_close && ++calls == fail_at)
        return -EACCES;
    return rimf_syscall(nr, a, b, c, d, e, f);
}

static const struct rimf_sys kernel = {call};

static const char *at(const char *path)
{
    static char whole[4][PATH_MAX];
    static unsigned next;
    char *to = whole[next++ % 4];

    snprintf(to, PATH_MAX, "%s/%s", root, path);
    return to;
}

static void folder(const char *path, mode_t mode)
{
    CHECK((mkdir(at(path), 0700) == 0 || errno == EEXIST) && chmod(at(path), mode) == 0, "%s", path);
    CHECK(geteuid() || chown(at(path), user, 0) == 0);
}

static void file(const char *path, mode_t mode)
{
    int fd = open(at(path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && fchmod(fd, mode) == 0 && (geteuid() || fchown(fd, user, 0) == 0), "%s", path);
    close(fd);
}

static void link_to(const char *target, const char *path)
{
    unlink(at(path));
    CHECK(symlink(target, at(path)) == 0 && (geteuid() || lchown(at(path), user, 0) == 0), "%s", path);
}

static void is(const char *path, int wanted, const char *blamed, int line)
{
    struct stat st, there;
    const char *why = "";
    size_t length = 0;
    int got = trusted_path(&kernel, path, user, &st, &why, &length);
    char part[PATH_MAX];

    snprintf(part, sizeof part, "%.*s", (int)length, path);
    CHECK(got == wanted, "line %d: %s: %d, not %d (%s: %s)", line, path, got, wanted, part, why);
    if (blamed)
        CHECK(strcmp(part, blamed) == 0, "line %d: of %s, %s", line, path, part);
    if (!got)
        CHECK(stat(path, &there) == 0 && there.st_ino == st.st_ino && there.st_dev == st.st_dev, "line %d", line);
}
#define IS(path, wanted) is(at(path), wanted, NULL, __LINE__)
#define REFUSED(path, blamed) is(at(path), -EPERM, at(blamed), __LINE__)

static void folders(void)
{
    folder("a", 0755);
    folder("a/b", 0700);
    file("a/b/file", 0644);
    IS("a/b/file", 0);
    IS("a//b/../b/./file", 0);
    IS("a/b/none", -ENOENT);
    IS("a/none/none", -ENOENT);
    IS("a/b/file/none", -ENOTDIR);
    is("a/b", -EINVAL, NULL, __LINE__);
    unsigned group = geteuid() && getegid() == geteuid(); /* it counts as the user: own_group() */
    for (unsigned mode = group ? 0777 : 0775; mode <= 0777; mode += 2) { /* group, all */
        folder("a", mode);
        REFUSED("a/b/file", "a");
        REFUSED("a/none", "a");
        folder("a", 0755);
        file("a/b/file", mode & 0666);
        CHECK(chmod(at("a/b/file"), mode & 0666) == 0);
        REFUSED("a/b/file", "a/b/file");
        CHECK(chmod(at("a/b/file"), 0644) == 0);
    }
    IS("a/b/file", 0);
}

/* As /tmp. */
static void sticky(void)
{
    folder("s", 01777);
    folder("s/mine", 0755);
    file("s/mine/file", 0644);
    file("s/file", 0644);
    link_to("mine", "s/link");
    IS("s/mine/file", 0);
    IS("s/mine/none", -ENOENT);
    REFUSED("s/file", "s/file");      /* who has a file of root's can move it there */
    REFUSED("s/link/file", "s/link"); /* or a link */
    REFUSED("s", "s");                /* what is looked for in it could be anybody's */
    REFUSED("s/none", "s/none");      /* and anybody can make this */
    REFUSED("s/none/none", "s/none");
}

static void links(void)
{
    char *absolute = strdup(at("a/b"));

    link_to("b", "a/relative");
    link_to("../a/./relative", "a/two");
    link_to(absolute, "a/absolute");
    link_to("loop", "a/loop");
    link_to("none", "a/dangling");
    link_to("../s/mine", "a/through");
    link_to("../s/link", "a/through-link");
    IS("a/relative/file", 0);
    IS("a/two/file", 0);
    IS("a/absolute/file", 0);
    IS("a/through/file", 0);
    IS("a/loop", -ELOOP);
    IS("a/loop/file", -ELOOP);
    IS("a/dangling", -ENOENT);
    REFUSED("a/through-link/file", "a/through-link");
    folder("a/b", 0777);
    REFUSED("a/relative/file", "a/relative");
    folder("a/b", 0700);
    free(absolute);
}

static void long_names(void)
{
    char name[600];

    for (size_t n = 254; n < sizeof name; n++) {
        memset(name, 'x', n);
        name[n] = 0;
        IS(name, n <= 255 ? -ENOENT : -ENAMETOOLONG);
    }
}

/* A user whose HOME another one kept, as su does. */
static void others(void)
{
    struct stat st;
    const char *why;
    size_t length;

    CHECK(trusted_path(&kernel, at("a/b/file"), user ? 0 : OTHER, &st, &why, &length) == (user ? -EPERM : 0));
    if (geteuid())
        return;
    folder("home", 0755);
    folder("home/mvld", 0755);
    file("home/mvld/file", 0644);
    for (const char *const *part = (const char *const[]){"home", "home/mvld", "home/mvld/file", NULL}; *part; part++) {
        CHECK(chown(at(*part), OTHER, 0) == 0);
        REFUSED("home/mvld/file", *part);
        CHECK(chown(at(*part), 0, 0) == 0);
        IS("home/mvld/file", 0); /* root's do for all */
    }
    /* Their link to a folder of the user's, which no check of the file can tell. */
    link_to("../a/b", "home/link");
    IS("home/link/file", 0);
    CHECK(lchown(at("home/link"), OTHER, 0) == 0);
    REFUSED("home/link/file", "home/link");
}

/* Debian's users have a group of their own. */
static void own_group(void)
{
    if (geteuid() || !user)
        return;
    for (gid_t group = user; group <= user + 1; group++) {
        CHECK(chown(at("a"), user, group) == 0 && chmod(at("a"), 0775) == 0);
        IS("a/b/file", group == user ? 0 : -EPERM);
    }
    CHECK(chmod(at("a"), 0777) == 0);
    IS("a/b/file", -EPERM);
    folder("a", 0755);
}

/* Every start pays for it: a component is one call, a link two. */
static void few_calls(void)
{
    unsigned components = 0;
    struct stat st;

    for (const char *p = at("a/b/file"); *p; p++)
        components += *p == '/';
    calls = 0;
    CHECK(!trusted_path(&kernel, at("a/b/file"), user, &st, NULL, NULL) && calls == components, "%u calls", calls);
    calls = 0;
    CHECK(!trusted_path(&kernel, at("a/relative/file"), user, &st, NULL, NULL) && calls == components + 2, "%u calls",
          calls);
}

/* What cannot be looked at is not believed, and no descriptor stays open. */
static void failing_calls(void)
{
    int before = dup(0), after;
    struct stat st;

    for (fail_at = 1;; fail_at++) {
        calls = 0;
        int got = trusted_path(&kernel, at("a/absolute/file"), user, &st, NULL, NULL);
        if (calls < fail_at) {
            CHECK(!got && fail_at > 9, "%u calls", fail_at);
            break;
        }
        CHECK(got == -EACCES, "call %u: %d", fail_at, got);
    }
    fail_at = 0;
    after = dup(0);
    CHECK(after == before + 1, "descriptors: %d and %d", before, after);
    close(before);
    close(after);
}

static void all(void)
{
    CHECK(geteuid() || chown(root, user, 0) == 0);
    folders();
    sticky();
    links();
    long_names();
    others();
    own_group();
    few_calls();
    failing_calls();
}

int main(void)
{
    char command[128];

    CHECK(mkdtemp(root));
    user = geteuid();
    all();
    if (!user) { /* the same, of a user */
        user = 1234;
        snprintf(command, sizeof command, "rm -r %s/*", root);
        CHECK(system(command) == 0);
        all();
    }
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
    return 0;
}
