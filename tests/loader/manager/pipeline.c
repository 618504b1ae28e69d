/* SPDX-License-Identifier: MIT
 *
 * From configuration to running passes: a right pipeline runs in its order with
 * its settings, a wrong one is refused with one sentence that says where and names
 * both passes.  A failure means that passes run in an order or with options that
 * nobody asked for, or that a wrong configuration is not explained.
 *
 * Argument: the folder of the probes and of the bad passes.
 */
#include "support.h"

/* ---- planning ------------------------------------------------------------------ */

static void refuses_wrong_pipelines(void)
{
    refuses(APP "passes = first, first\n", CONF "3: the pass 'first' is in the pipeline twice");
    refuses(APP "passes = nowhere\n", CONF "3: there is no pass 'nowhere': no nowhere.so in ");
    refuses(APP "passes = first, square, circle\n",
            CONF "3: the passes 'circle' and 'square' each run behind the other");
    refuses(APP "passes = First\n", CONF "3: 'First' is no name of a pass");
    refuses(APP "passes = first,,second\n", CONF "3: '' is no name of a pass");
    refuses(APP "passes = ../first\n", CONF "3: '../first' is no name of a pass");
    refuses(APP "passes = bad_needed\n", "'bad_needed' is no name of a pass");
    refuses(APP "passes = renamed\n", "/renamed.so: it calls itself 'first'");
    refuses(APP "passes = bad\n", "/bad.so: bad.o = 3 is out of range: 0 to 2");
}

static void refuses_wrong_options(void)
{
#define FIRST APP "passes = first\n[first]\n"
    refuses(FIRST "colour = red\n", CONF "5: the pass 'first' has no option 'colour'");
    refuses(FIRST "flag = maybe\n", CONF "5: first.flag is yes or no, not 'maybe'");
    refuses(FIRST "number = ten\n", CONF "5: first.number is a number, not 'ten'");
    refuses(FIRST "number = 101\n", CONF "5: first.number = 101 is out of range: -5 to 100");
    refuses(FIRST "number = 99999999999999999999\n", "is out of range");
    refuses(FIRST "number =\n", "first.number is a number, not ''");
    refuses(FIRST "speed = warp\n", CONF "5: first.speed = warp: it is one of slow, fast");
    refuses(FIRST "text = \"a\", \"b\"\n", CONF "5: first.text takes one value");
    refuses(FIRST "set. = 1\n", CONF "5: the pass 'first' has no option 'set.'");
    refuses(FIRST "flag = 1\nflag = 0\n",
            CONF "6: 'flag' of [first] is said twice, first in line 5");
    world_env(w, "MVLD_TUNABLES=first.number=1000");
    refuses(FIRST, "MVLD_TUNABLES: first.number = 1000 is out of range");
    world_clear_env(w);
}

static void nothing_to_do(void)
{
    struct pipeline *p = plan("; nothing\n");

    CHECK(!p && !*why && w->maps == 0, "%s", why);
    p = plan("[app]\nmatch = other\npasses = nowhere\n");
    CHECK(!p && !*why && w->maps == 0, "%s", why);
    p = plan(APP "passes =\n"); /* switched off */
    CHECK(!p && !*why && w->maps == 0, "%s", why);
    p = plan(APP "placement = near\n");
    CHECK(!p && !*why && w->maps == 0, "%s", why);
}

static void no_log_no_reason_asked(void)
{
    struct pipeline_query q = {.sys = &w->sys, .envp = w->env, .program = "/usr/bin/program"};
    struct pipeline *p;

    world_system(w, APP "passes = nowhere\n");
    CHECK(pipeline_plan(&q, &p, NULL, 0) == -ENOENT && !p, "refused");
    world_system(w, APP "passes = first\n");
    CHECK(pipeline_plan(&q, &p, NULL, 0) == 0 && p, "planned");
    pipeline_free(p);
}

/* ---- printing and reading back -------------------------------------------------- */

struct printed {
    char text[1 << 16];
    size_t used;
};

static void keep_line(void *cookie, const char *line)
{
    struct printed *to = cookie;

    to->used += (size_t)snprintf(to->text + to->used, sizeof(to->text) - to->used, "%s\n", line);
}

static void drop_comments(char *text)
{
    char *to = text;

    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *comment = strstr(line, " ; "); /* all print_value ends with one */
        for (char *next = comment; next; next = strstr(next + 1, " ; "))
            comment = next;
        if (comment)
            *comment = 0;
        if (*line != ';')
            to += sprintf(to, "%s\n", line);
    }
    *to = 0;
}

static void prints_what_reads_back(void)
{
    static struct printed one, two;
    struct pipeline *p = plan(
        APP "passes = first, second\nplacement = as-is ; why\npatch = remap\n"
        "[second]\ntext = \"  a ; \\\"b\\\" \\\\\"\nset.x = 1, 2\nset.a;b = c\\d\nflag = off\n"
        "[unused]\nk = v\n");

    CHECK(!p && strstr(why, "the key has a character"), "%s", why);
    p = plan(APP "passes = first, second\nplacement = as-is ; why\npatch = remap\n"
             "[second]\ntext = \"  a ; \\\"b\\\" \\\\\"\nset.x = 1, 2\nset.a = c\\d\nflag = off\n"
             "[unused]\nk = v\n");
    CHECK(p, "%s", why);
    CHECK(strstr(world_log(w), CONF "12: not used: the pass 'unused' is not in the pipeline"),
          "unused section");
    if (!p)
        return;
    CHECK(!strcmp(pipeline_setting(p, "placement"), "as-is"), "placement");
    CHECK(!strcmp(pipeline_setting(p, "patch"), "remap"), "patch");
    CHECK(!pipeline_setting(p, "nothing"), "nothing");
    pipeline_print(p, keep_line, &one);
    pipeline_free(p);
    CHECK(strstr(one.text, "; /usr/bin/program: the [app] of " CONF "1 matches by 'program'"),
          "%s", one.text);
    CHECK(strstr(one.text, "text = \"  a ; \\\"b\\\" \\\\\" ; " CONF "7"), "%s", one.text);
    CHECK(strstr(one.text, "number = 7 ; default"), "%s", one.text);
    p = plan(one.text);
    CHECK(p, "%s\nof\n%s", why, one.text);
    if (!p)
        return;
    pipeline_print(p, keep_line, &two);
    pipeline_free(p);
    drop_comments(one.text);
    drop_comments(two.text);
    CHECK(!strcmp(one.text, two.text), "%s\nbecame\n%s", one.text, two.text);
    CHECK(w->maps == 0, "%ld", w->maps);
}

static void tunables_alone(void)
{
    static struct printed printed;

    world_system(w, "");
    world_env(w, "MVLD_TUNABLES=app.passes=first:first.text=a\\:b:app.placement=near");
    struct pipeline *p = plan(NULL);
    CHECK(p, "%s", why);
    if (!p)
        return;
    CHECK(!strcmp(pipeline_setting(p, "placement"), "near"), "placement");
    pipeline_print(p, keep_line, &printed);
    CHECK(strstr(printed.text, "text = a:b ; MVLD_TUNABLES\n"), "%s", printed.text);
    CHECK(strstr(printed.text, "no [app] matches"), "%s", printed.text);
    pipeline_free(p);
    world_clear_env(w);
    world_env(w, "MVLD_TUNABLES=app.passes=first:nonsense");
    refuses(NULL, "MVLD_TUNABLES: 'nonsense' is not pass.option=value");
    world_clear_env(w);
}

/* ---- running -------------------------------------------------------------------- */

/* Runs the pipeline; what was logged. */
static const char *run(const char *text, int want)
{
    struct pipeline *p = plan(text);

    CHECK(p, "%s", why);
    if (!p)
        return "";
    world_log(w);
    int result = pipeline_run(p, NULL, SIZE_MAX);
    CHECK(result == want, "%d, want %d", result, want);
    pipeline_added(p, NULL, NULL, 2, 0, pipeline_count(p));
    pipeline_removed(p, NULL, RIMF_STAGE_RUN, NULL, 1);
    pipeline_free(p);
    CHECK(w->maps == 0, "%ld", w->maps);
    return world_log(w);
}

static void in_order(const char *log, const char *const *lines)
{
    const char *at = log;

    for (; *lines; lines++) {
        const char *found = strstr(at, *lines);
        CHECK(found, "'%s' is missing, or not in order, in\n%s", *lines, log);
        if (found)
            at = found;
    }
}

static void runs_in_order(void)
{
    const char *log = run(APP "passes = first, second\n[second]\nset.a=1\nspeed=slow\nset.b=2\n",
                          0);

    in_order(log, (const char *const[]){
        "pass first: runs", "first.flag = yes (1)",
        "first.number = 7 (7)", "first.speed = fast (1)", "first.text = none (0)",
        "pass first: done", "pass second: runs",
        "second.speed = slow (0)", "second.set.a = 1", "second.set.b = 2", "pass second: done",
        "pass statistics:", "total time in passes: ", "time in first: ", "time in second: ",
        "first added 2 after 1", "second added 2 after 1", "second removed 1", "first removed 1",
        NULL});
}

static void a_failing_pass(void)
{
    const char *log =
        run(APP "passes = failing, second\n", -ECANCELED);

    in_order(log, (const char *const[]){
        "the pass 'failing' failed (error 5): failing does not want to",
        "pass second: done", "time in failing: ", "second added 2", NULL});
    CHECK(!strstr(log, "failing added"), "a failed pass hears of dlopen");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    world_begin(w);
    install_probes(argv[1]);
    nothing_to_do();
    no_log_no_reason_asked();
    refuses_wrong_pipelines();
    refuses_wrong_options();
    prints_what_reads_back();
    tunables_alone();
    runs_in_order();
    a_failing_pass();
    world_end(w);
    return failures != 0;
}
