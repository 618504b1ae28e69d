/* SPDX-License-Identifier: MIT
 *
 * multiverse.c: what init, commit and revert cost, beside their floor.
 *
 *     image     listing the objects: program headers, names, notes
 *     init      gather: notes and tables of the objects, once they are listed
 *     first     the first commit: reads, decodes and patches every site
 *     steady    a commit after the switch changed: patches every site
 *     refs      the same by commit_refs of the switch, which all functions have variants for
 *     nothing   a commit after which all is as it was
 *     revert    back to the generic
 *     two       a batch of two patches at the ends of the range: what a commit pays
 *               before its sites
 *     floor     the range of the sites to RW- and back to R-X, nothing written
 *
 * Sites are read by the first commit, so that a program that never commits does not
 * pay for them.  An engine that reads them while it initialises is to be compared by
 * the sum of image, init and first commit.
 *
 * Each figure is a median over processes, since a first commit comes once in one.
 * The engine is driven without libmultiverse around it, which would have gathered
 * before main.  Prints lines for bench/run.py: multiverse NAME.
 */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../measure.h"
#include "passes/multiverse/engine/engine.h"

#include "rimf/image/image.h"
#include "rimf/base/log.h"

#define PROCESSES 31
#define STEADY 41

enum figure {
    IMAGE, INIT, FIRST, STEADY_COMMIT, REFS, NOTHING, REVERT, TWO_PATCHES, FLOOR, FIGURES
};
static const struct {
    const char *name, *what;
} figures[FIGURES] = {
    {"image", "listing the objects"},
    {"init", "tables only; sites are read by the first commit"},
    {"first commit", "reads, decodes and patches all sites"},
    {"steady commit", "patches all sites, W^X"},
    {"commit of a switch", "patches all sites, W^X"},
    {"commit of nothing", "asks whether something changed"},
    {"revert", "patches all sites, W^X"},
    {"two patches", "at the ends of the range: a commit without its sites"},
    {"floor", "one protection change and back over the range"},
};

extern int config;
extern char sites_start[], sites_end[];

static int list(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct rimf_source **at = cookie;

    (void)size;
    *(*at)++ = (struct rimf_source){.name = *info->dlpi_name ? info->dlpi_name : "bench",
                                    .bias = info->dlpi_addr,
                                    .phdr = info->dlpi_phdr,
                                    .phnum = info->dlpi_phnum};
    return 0;
}

static void expect(int is, int want, const char *what)
{
    if (is == want)
        return;
    fprintf(stderr, "%s: %d, want %d\n", what, is, want);
    _exit(1);
}

static double apply(struct mv_engine *engine, enum mv_action action, enum mv_scope scope,
                    int value)
{
    static struct mv_reply reply;
    int changes = action == MV_REVERT || config != value ? 16 : 0;
    double start;

    config = value;
    start = now();
    expect(mv_ops_apply(engine, action, scope, scope == MV_ALL ? NULL : &config,
                                    &reply), changes, reply.error);
    start = now() - start;
    expect(reply.report[0], 0, "report");
    return start;
}

/* A batch with the first bytes and the last of the range.  They stay what they are,
 * for which the patch engine does not look. */
static double two_patches(struct mvld_image *image)
{
    const struct mvld_api *api = rimf_api();
    const uintptr_t places[] = {(uintptr_t)sites_start, (uintptr_t)sites_end - 1};
    struct mvld_patch_report report;
    double start = now();
    struct mvld_batch *batch = api->patch_begin(image);

    for (int i = 0; i < 2; i++)
        expect(api->patch_add(batch, places[i], (void *)places[i], (void *)places[i], 1), 0, "add");
    expect(api->patch_commit(batch, &report), 0, "two patches");
    expect((int)report.applied, 2, "applied");
    api->patch_end(batch);
    return now() - start;
}

static void measure(double *out)
{
    static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = -1};
    struct rimf_source sources[64], *end = sources;
    struct rimf_change change;
    struct mvld_image *image;
    struct mv_engine *engine;
    size_t length = (size_t)(sites_end - sites_start);
    double start = now(), steady[STEADY], refs[STEADY], nothing[STEADY],
           revert[STEADY], floor[STEADY], two[STEADY];

    dl_iterate_phdr(list, &end);
    expect(rimf_image_create(&rimf_sys_kernel, &no_log, &image), 0, "image");
    expect(rimf_image_update(image, sources, (size_t)(end - sources), &change), 0, "image");
    out[IMAGE] = now() - start;
    start = now();
    expect(mv_create(image, rimf_api(), &rimf_sys_kernel, &engine), 0, "engine");
    expect(mv_added(engine, change.added, change.n_added), 0, "gather");
    out[INIT] = now() - start;
    config = 1; /* so that 0 is a change */
    out[FIRST] = apply(engine, MV_COMMIT, MV_ALL, 0);
    for (int i = 0; i < STEADY; i++) {
        steady[i] = apply(engine, MV_COMMIT, MV_ALL, !config);
        refs[i] = apply(engine, MV_COMMIT, MV_REFS, !config);
        nothing[i] = apply(engine, MV_COMMIT, MV_ALL, config);
    }
    for (int i = 0; i < STEADY; i++) {
        revert[i] = apply(engine, MV_REVERT, MV_ALL, 1);
        apply(engine, MV_COMMIT, MV_ALL, 0);
    }
    for (int i = 0; i < STEADY; i++)
        two[i] = two_patches(image);
    for (int i = 0; i < STEADY; i++) {
        start = now();
        expect(mprotect(sites_start, length, PROT_READ | PROT_WRITE), 0, "mprotect");
        expect(mprotect(sites_start, length, PROT_READ | PROT_EXEC), 0, "mprotect");
        floor[i] = now() - start;
    }
    out[STEADY_COMMIT] = median(steady, STEADY);
    out[REFS] = median(refs, STEADY);
    out[NOTHING] = median(nothing, STEADY);
    out[REVERT] = median(revert, STEADY);
    out[TWO_PATCHES] = median(two, STEADY);
    out[FLOOR] = median(floor, STEADY);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    double samples[FIGURES][PROCESSES], one[FIGURES];

    for (int i = 0; i < PROCESSES; i++) {
        int ends[2], status;
        pid_t child;

        if (pipe(ends) || (child = fork()) < 0)
            return 1;
        if (!child) {
            measure(one);
            _exit(write(ends[1], one, sizeof one) != sizeof one);
        }
        if (waitpid(child, &status, 0) != child || status ||
            read(ends[0], one, sizeof one) != sizeof one)
            return 1;
        close(ends[0]);
        close(ends[1]);
        for (int f = 0; f < FIGURES; f++)
            samples[f][i] = one[f];
    }
    for (int f = 0; f < FIGURES; f++)
        printf("result: multiverse %s, %s | %.1f | µs | %s\n", name, figures[f].name,
               median(samples[f], PROCESSES), figures[f].what);
    return 0;
}
