/* SPDX-License-Identifier: MIT
 *
 * config/make.c: see config/make.h.  The loader's own parser reads the files.  A file that the
 * loader would not trust is refused, because the output is trusted.
 */
#include "tools/config/make.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include "loader/config/config.h"
#include "loader/manager/private.h"
#include "rimf/base/log.h"
#include "rimf/base/trusted.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* Reads a whole file; NULL with errno. */
static char *read_all(const char *path, size_t most, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    size_t room = 0;
    ssize_t got = fd < 0 ? -1 : 0;

    for (*length = 0; fd >= 0 && *length <= most; *length += (size_t)got) {
        if (*length == room) /* most are small, and so may memory be (RLIMIT_DATA) */
            text = must_grow(text, room = room ? 2 * room : 4096, 1);
        got = read(fd, text + *length, room - *length);
        if (got <= 0)
            break;
    }
    int error = got < 0 ? errno : *length > most ? EFBIG : 0;
    if (fd >= 0)
        close(fd);
    if (!error)
        return text;
    free(text);
    errno = error;
    return NULL;
}

static int wrong(struct config_made *m, const char *path, const char *why)
{
    snprintf(m->why, sizeof m->why, "%s: %s", path, why);
    return -1;
}

static int unreadable(struct config_made *m, const char *path, int error)
{
    m->hidden = error == EACCES;
    return wrong(m, path, error == EFBIG ? "the file is larger than 1 MiB" : strerror(error));
}

/* ---- one file ----------------------------------------------------------------------- */

/* Adds the part of an element of `match` that the loader compares first, without duplicates; and a path to the
 * programs. */
static void list_element(struct config_made *m, struct ini_slice element)
{
    char *text = must_alloc(element.length + 1, 1);

    ini_text(element, text);
    if (!strncmp(text, CONFIG_BUILD_ID, strlen(CONFIG_BUILD_ID)))
        for (char *c = text; *c; c++)
            *c = (char)tolower((unsigned char)*c);
    const char *slash = strrchr(text, '/');
    char *listed = must_print("/%s/", slash ? slash + 1 : text);
    if (!strstr(m->list, listed)) {
        char *list = must_print("%s%s", m->list, listed + 1);
        free(m->list);
        m->list = list;
    }
    free(listed);
    if (*text == '/') {
        m->programs = must_grow(m->programs, m->n_programs + 1, sizeof *m->programs);
        m->programs[m->n_programs++] = text;
    } else {
        free(text);
    }
}

/* The options of the passes that are found here; others may be in another MVLD_PASS_PATH. */
static int check_options(const struct config *config, const char *folders, const struct why *why)
{
    struct pipeline p = {.sys = &rimf_sys_kernel, .log = {.sys = &rimf_sys_kernel, .fd = -1}, .pass_path = folders};
    const char *section = "app";
    int error = 0;

    rimf_heap_init(&p.heap, p.sys);
    for (const struct config_entry *e = config->entries; e && !error; e = e->next) {
        struct planned_pass it;
        struct mvld_setting *settings;
        size_t n;

        if (!strcmp(e->section, section) || !strcmp(e->section, "app"))
            continue;
        section = e->section;
        p.order = e;
        if (!pipeline_find_pass(&p, section, &it, why) && !pipeline_map_pass(&p, &it, why)) {
            error = options_finish(&p.heap, it.pass, it.path, config, &settings, &n, why);
            pass_unmap(p.sys, &it.object);
        } else {
            *why->text = 0; /* `mvld passes' says why it is none */
        }
    }
    rimf_heap_destroy(&p.heap);
    return error;
}

/* Checks what the loader finds only when it uses a block: duplicate keys, and options of passes. */
static int check_blocks(struct config_made *m, struct rimf_heap *heap, const char *path,
                        const char *text, size_t length, const struct why *why)
{
    struct config config = {0};
    const char *start = NULL;
    const char *phrase;
    struct ini_item item;
    struct ini ini;
    int error = 0, in_app = 0;

    ini_begin(&ini, text, length, 1);
    do {
        ini_next(&ini, &item, &phrase); /* config_scan found no errors */
        struct ini_slice element;
        if (item.kind == INI_SECTION)
            in_app = ini_is(item.name, "app");
        if (item.kind == INI_KEY && in_app && ini_is(item.name, "match"))
            while (ini_list_next(&item.value, &element))
                list_element(m, element);
        if (item.kind == INI_KEY || (item.kind == INI_SECTION && !in_app))
            continue;
        if (start)
            error = config_load(heap, start, (size_t)(item.start - start), &config, why);
        if (start && !error && m->passes)
            error = check_options(&config, m->passes, why);
        start = item.start;
        config = (struct config){.file = path, .line = item.line};
        m->blocks += item.kind == INI_SECTION;
    } while (!error && item.kind != INI_END);
    return error;
}

static int check_file(struct config_made *m, const char *path, const char *text, size_t length)
{
    struct rimf_heap heap;
    struct why why = {m->why, sizeof m->why};
    struct pipeline_query query = {.sys = &rimf_sys_kernel, .secure = 1, .program = "/", .name = "/"};
    struct config none;
    int error;

    rimf_heap_init(&heap, &rimf_sys_kernel);
    error = config_scan(&query, &heap, &(struct config_text){path, text, length}, &none, &why);
    if (!error)
        error = check_blocks(m, &heap, path, text, length, &why);
    rimf_heap_destroy(&heap);
    return error ? -1 : 0;
}

/* Removes the text of comments, which every start would read, but keeps their lines, so that line
 * numbers stay. */
static void without_comments(struct config_source *s, const char *path, const char *text,
                             size_t length)
{
    const char *end = text + length;

    s->path = must_print("%s", path);
    s->text = must_alloc(strlen(CONFIG_MARK) + strlen(path) + length + 3, 1);
    s->length = (size_t)sprintf(s->text, "%s%s\n", CONFIG_MARK, path);
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((newline ? newline : end) - text), blanks = 0;
        while (blanks < n && (text[blanks] == ' ' || text[blanks] == '\t'))
            blanks++;
        if (blanks < n && text[blanks] != ';' && text[blanks] != '#') {
            memcpy(s->text + s->length, text, n);
            s->length += n;
        }
        s->text[s->length++] = '\n';
        text += n + 1;
    }
}

static int add_file(struct config_made *m, const char *path)
{
    struct stat st;
    size_t length, named;
    const char *why;
    int error = trusted_path(&rimf_sys_kernel, path, geteuid(), &st, &why, &named);

    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return wrong(m, path, "there is a control character in the name");
    if (error == -EACCES)
        return unreadable(m, path, EACCES);
    if (error) {
        snprintf(m->why, sizeof m->why, "%s: it counts for nothing, because of %.*s: %s", path,
                 (int)named, path, why);
        return -1;
    }
    if (!S_ISREG(st.st_mode))
        return wrong(m, path, "this is no regular file");
    char *text = read_all(path, CONFIG_FILE_MAX, &length);
    if (!text)
        return unreadable(m, path, errno);
    error = check_file(m, path, text, length);
    if (!error) {
        m->sources = must_grow(m->sources, m->n + 1, sizeof *m->sources);
        without_comments(&m->sources[m->n++], path, text, length);
    }
    free(text);
    return error;
}

/* ---- all ------------------------------------------------------------------------------ */

static int is_conf(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return entry->d_name[0] != '.' && n > 5 && !strcmp(entry->d_name + n - 5, ".conf");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(struct config_made *m)
{
    char *folder = must_print("%s/apps.d", m->folder);
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_conf, by_name);
    int error = n < 0 && errno != ENOENT && errno != ENOTDIR ? unreadable(m, folder, errno) : 0;

    for (int i = 0; i < n; i++) {
        char *path = must_print("%s/%s", folder, names[i]->d_name);
        if (!error)
            error = add_file(m, path);
        free(path);
        free(names[i]);
    }
    free(names);
    free(folder);
    return error;
}

static char *find_folder(int users)
{
    const struct pipeline_query query = {.envp = environ};
    struct config_environment environment;
    char path[4096];

    if (!users)
        return must_print("%s", MVLD_SYSCONF_DIR);
    config_environment(&query, &environment);
    return config_user_folder(path, sizeof path, &environment, "") ? must_print("%s", path) : NULL;
}

static size_t total(const struct config_made *m)
{
    size_t n = strlen(m->list) + 1;

    for (size_t i = 0; i < m->n; i++)
        n += m->sources[i].length;
    return n;
}

int config_make(struct config_made *m, int users, const char *passes)
{
    *m = (struct config_made){.folder = find_folder(users), .list = must_print(CONFIG_LIST), .passes = passes};
    if (!m->folder)
        return wrong(m, "no folder", "neither HOME nor XDG_CONFIG_HOME is an absolute path");
    m->path = must_print("%s/" CONFIG_MADE, m->folder);
    char *first = must_print("%s/mvld.conf", m->folder);
    struct stat st;
    int error = lstat(first, &st) && (errno == ENOENT || errno == ENOTDIR) ? 0 : add_file(m, first);
    free(first);
    if (!error)
        error = add_folder(m);
    if (!error && total(m) > CONFIG_FILE_MAX)
        error = wrong(m, m->path, "all files together are larger than 1 MiB");
    return error;
}

void config_made_free(struct config_made *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->sources[i].path);
        free(m->sources[i].text);
    }
    free(m->sources);
    for (size_t i = 0; i < m->n_programs; i++)
        free(m->programs[i]);
    free(m->programs);
    free(m->list);
    free(m->folder);
    free(m->path);
}

char *config_made_text(const struct config_made *m, size_t *length)
{
    char *text = must_alloc(total(m) + 1, 1);

    *length = m->blocks ? (size_t)sprintf(text, "%s\n", m->list) : 0;
    for (size_t i = 0; m->blocks && i < m->n; i++) {
        memcpy(text + *length, m->sources[i].text, m->sources[i].length);
        *length += m->sources[i].length;
    }
    return text;
}

/* ---- and what there is ------------------------------------------------------------------ */

static char *first_difference(const struct config_made *m, const char *there, size_t n)
{
    for (size_t i = 0; m->blocks && i < m->n; i++)
        if (!memmem(there, n, m->sources[i].text, m->sources[i].length))
            return must_print("%s is not in %s as it is now", m->sources[i].path, m->path);
    return must_print("%s holds what its files no longer say", m->path);
}

char *config_made_differs(const struct config_made *m)
{
    size_t wanted, n = 0;
    char *text, *there, *said = NULL;

    if (!m->folder || m->hidden)
        return NULL;
    if (*m->why)
        return must_print("%s: this is not in %s", m->why, m->path);
    text = config_made_text(m, &wanted);
    there = read_all(m->path, CONFIG_FILE_MAX, &n);
    if (!there && errno != ENOENT && errno != ENOTDIR)
        said = must_print("%s: %s", m->path, strerror(errno));
    else if (n != wanted || (there && memcmp(there, text, n)))
        said = first_difference(m, there ? there : "", n);
    free(there);
    free(text);
    return said;
}

void config_remind(const char *subcommand)
{
    for (int users = 0; users < 2; users++) {
        struct config_made m;
        config_make(&m, users, NULL);
        char *said = config_made_differs(&m);
        if (said)
            complain(subcommand, "%s; see `mvld config%s'", said, users ? " --user" : "");
        free(said);
        config_made_free(&m);
    }
}
