/* SPDX-License-Identifier: MIT
 *
 * cache/stale.c: whether a snapshot would now be made in the same way, and the command that renews
 * it.
 */
#include "tools/cache/state.h"
#include "tools/changes/changes.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/run/program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Compares with the present analysis of an object, if it is of this very file: for another file
 * only a process that has mapped it can tell. */
static int has_other_analysis(const struct manifest_object *object, const char *name)
{
    char own[4096];
    const char *why;
    size_t n = path_users_cache(own, sizeof own, "analysis", &why) ? 2 : 1;
    const struct analysis_place places[] = {{.folder = ANALYSIS_SYSTEM_FOLDER}, {.folder = own, .user = geteuid()}};
    struct analysis_file file;
    struct program now;
    int other;

    if (program_open(&now, name) || analysis_find(&file, &cache_reader, places, n, now.build_id, now.build_id_size,
                                                  ANALYSIS_WANT(ANALYSIS_SEGMENTS), &why))
        return 0;
    other = analysis_key(file.view.header) != object->analysis &&
            file_id_same(&file.view.header->identity, &object->file);
    analysis_unmap(&file, &cache_reader);
    return other;
}

/* A library of a pass, which nobody analyses. */
static int is_brought(const struct cached *c, const char *name)
{
    const struct manifest *m = &c->file.view;

    for (uint32_t i = 0; i < m->header->n_passes; i++)
        if (!strcmp(m->names + m->header->passes[i].library, name))
            return 1;
    return 0;
}

/* Analyses are found by build-id. */
static int can_be_analysed(const char *name)
{
    struct program now;

    return !program_open(&now, name) && now.build_id_size;
}

/* `mvld analyze --program' finds the libraries that a program is linked with.  An object of dlopen
 * lacks an analysis only if one was made since. */
static int lacks_analysis(const struct cached *c, const struct manifest *m, const struct manifest_object *object)
{
    const char *name = m->names + object->name;

    return m == &c->later.view ? has_other_analysis(object, name) : !is_brought(c, name) && can_be_analysed(name);
}

int cached_lacks(const struct cached *c, uint32_t i)
{
    const struct manifest *m = &c->file.view;
    return m->objects[i].analysis == ANALYSIS_LACKS && lacks_analysis(c, m, &m->objects[i]);
}

char *cached_other_analysis(const struct cached *c, const struct manifest *m)
{
    for (uint32_t i = 0; m->header && i < m->header->n_objects; i++) {
        const struct manifest_object *object = &m->objects[i];
        const char *name = m->names + object->name;

        if (object->analysis == ANALYSIS_LACKS && lacks_analysis(c, m, object))
            return must_print("it was made without the analysis of %s", name);
        if (object->analysis > ANALYSIS_LACKS && has_other_analysis(object, name))
            return must_print("it was made with another analysis of %s", name);
    }
    return NULL;
}

char *cached_build(const char *program, int analyses)
{
    char *build = shell_command("mvld build", program);
    if (!analyses)
        return build;
    char *analyze = shell_command("mvld analyze --program", program), *both = must_print("%s && %s", analyze, build);
    free(analyze);
    free(build);
    return both;
}

char *cached_remedy(const struct cached *c)
{
    const struct manifest *m = c->file.map ? &c->file.view : NULL;
    const char *program = m ? m->names + m->objects[0].name : "";
    uint32_t flags = 0;

    if (access(program, F_OK)) /* otherwise the program is unknown */
        return must_print("mvld cache prune%s", c->state == CACHE_OF_OTHER_MVLD ? " --other-mvld" : "");
    if (changes_have(program))
        return shell_command("mvld enable", program);
    for (uint32_t i = 0; i < m->header->n_passes; i++)
        flags |= m->header->passes[i].flags;
    return cached_build(program, flags & MVLD_PASS_ANALYSIS);
}
