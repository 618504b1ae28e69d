/* SPDX-License-Identifier: MIT
 *
 * loader/start/slot_writers.c: recognises tools that write to GOT slots while the program runs, to count or
 * change calls.  Such a tool would miss direct calls.
 *
 * They are recognised by file name: by this list, and by [app] slot-writers.  Their imports are no
 * criterion: code generators (LLVM, Java, browsers) also import dl_iterate_phdr and mprotect.
 *
 * If one is mapped at the start, no call becomes direct.  If one comes later, calls go through their slots
 * again before its first constructor runs.  Objects also point to their files' tables of relocations again:
 * a snapshot's have no symbols, by which a tool finds slots.  Standard error reports what is not possible.
 */
#include "loader/loader.h"

#include "loader/process/process.h"
#include "loader/start/start.h"
#include "loader/manager/pipeline.h"
#include "rimf/image/tables.h"
#include "rimf/realise/realise.h"

/* Prefixes of file names.  No pointers, because these would need relocation. */
static const char known[][20] = {
    "_memray.",         /* memray */
    "libheaptrack_",    /* heaptrack, preloaded or injected into a running process */
    "libgotcha.so",     /* LLNL's GOTCHA: Score-P, Caliper, TAU */
    "libplthook",       /* kubo's, as a library */
    "libdd_profiling",  /* Datadog's ddprof */
    "libmcount",        /* uftrace */
    "libasyncProfiler", /* async-profiler, and Datadog's of it for Java: */
    "libjavaProfiler",
    "librenderdoc.so",  /* RenderDoc */
};

static int writes_slots(const struct loader *l, const char *path)
{
    const char *file = rimf_file_name(path);

    for (size_t i = 0; i < RIMF_COUNT(known); i++)
        if (rimf_after(file, known[i]))
            return 1;
    return pipeline_names_writer(l->pipeline, file);
}

/* The sentence outlives the object. */
static const char *why_of(struct loader *l, const char *name)
{
    size_t size = rimf_strlen(name) + sizeof " writes to slots of the GOT";
    char *why = rimf_heap_alloc(&l->heap, size);

    if (!why)
        return "a tool writes to slots of the GOT";
    rimf_format(why, size, "%s writes to slots of the GOT", name);
    return why;
}

static void say_hidden(struct loader *l, const char *name, const char *what, const char *why)
{
    static const char format[] = "WARNING: mvld: %s writes to slots of the GOT, but some calls of %s stay direct (%s): "
                                 "it sees too few; run the program with MVLD=off";

    rimf_log(&l->log, MVLD_LOG_WARNING, format, name, what, why);
    say_line(l, format, name, what, why);
}

static void restore(struct loader *l, const char *name)
{
    struct rimf_restored all = rimf_calls_restore(l->image);

    rimf_log(&l->log, MVLD_LOG_PASSES, "%s writes to slots of the GOT: %zu calls go through theirs again", name,
             all.calls);
    if (all.left)
        say_hidden(l, name, "the program", "they could not be changed");
    else if (all.unknown)
        say_hidden(l, name, all.unknown->name, all.why);
}

void writers_came(struct loader *l, const struct mvld_object *const *objects, size_t n)
{
    for (size_t i = 0; i < n && !rimf_auditor(l->image); i++) {
        if (!writes_slots(l, objects[i]->name))
            continue;
        rimf_image_feeder(l->image)->auditor = why_of(l, objects[i]->name);
        restore(l, objects[i]->name);
    }
}
