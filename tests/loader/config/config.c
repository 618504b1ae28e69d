/* SPDX-License-Identifier: MIT
 *
 * The configuration reader, texts: which [app] wins for a program, and which sentence
 * each wrong line yields.  A failure means that a program gets another pipeline
 * than its configuration says, or that its user is not told why it got none.
 */
#include "support.h"

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
            ":3: 'rwx' is no patch; it is one of auto, mprotect, remap, selfmem");
    refuses("[app]\nmatch = a\ncolour = red\n",
            ":3: [app] has no key 'colour'; it has match, passes, placement, patch, on-miss, slot-writers");
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

/* Many keys: refused in the end, and not after a minute. */
static void very_many_keys(void)
{
    static char text[1024 * 1024];
    size_t used = (size_t)sprintf(text, "[app]\nmatch = *\npasses = p\n[p]\n");

    for (unsigned i = 0; used < sizeof(text) - 64 && i < 20000; i++)
        used += (size_t)sprintf(text + used, "set.%u = %u\n", i, i);
    world_file(w, named("/conf"), text, used);
    EXPECT("/conf:1003: there are more than 1000 keys for one program", "/a", "", 0);
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
        {"app.patch=x", "'x' is no patch; it is one of auto, mprotect, remap, selfmem"},
        {"app.x=y", "[app] has no key 'x'; it has match, passes, placement, patch, on-miss, slot-writers"},
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
    matching();
    wrong_lines();
    what_is_allowed();
    very_many_keys();
    wrong_tunables();
    world_end(w);
    return failures != 0;
}
