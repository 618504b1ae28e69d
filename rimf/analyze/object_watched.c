/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/object_watched.c: recognises objects whose code somebody identifies by its address, and
 * which would be confused by moved code.
 *
 * The kernel restarts an interrupted sequence (rseq) if the program counter is in a range that is described
 * by original addresses.  Moved code would be interrupted and never restarted.  Such sequences are found by
 * the signature before their abort handlers,
 *
 *     0f b9 3d 53 30 05 53     ud1 0x53053053(%rip),%edi
 *
 * or by the section with their descriptions.  Profilers are called with the address of the function, and
 * sanitizers report return addresses.  Every C library defines the profilers' functions: an object that
 * defines them does not use them.
 *
 * Code that calls dl_iterate_phdr may look there for the object of one of its own functions, as the JVM
 * does to find its home.  It may run elsewhere, but the addresses that it looks up must not change
 * (fixed.c).
 */
#include "rimf/analyze/object.h"

#include <string.h>

static int begins_with(const char *name, const char *start)
{
    return !strncmp(name, start, strlen(start));
}

void object_take_name(struct object *o, const char *name, int imported)
{
    static const char *const profilers[] = {"mcount", "_mcount", "__fentry__",
                                            "__cyg_profile_func_enter"};
    static const char *const sanitizers[] = {"__sanitizer_", "__asan_", "__tsan_", "__msan_"};
    static const char *const restarts[] = {"__rseq_cs", "__start___rseq_cs",
                                           "__stop___rseq_cs"};

    for (size_t i = 0; imported && i < sizeof profilers / sizeof *profilers; i++)
        if (!strcmp(name, profilers[i]))
            o->flags |= ANALYSIS_PROFILED;
    if (imported && !strcmp(name, "dl_iterate_phdr"))
        o->locates = 1;
    for (size_t i = 0; i < sizeof sanitizers / sizeof *sanitizers; i++)
        if (begins_with(name, sanitizers[i]))
            o->flags |= ANALYSIS_PROFILED;
    for (size_t i = 0; i < sizeof restarts / sizeof *restarts; i++)
        if (begins_with(name, restarts[i]))
            o->flags |= ANALYSIS_RESTARTS;
}

static int has_restart_section(const struct object *o)
{
    size_t size;
    const char *names = object_section_names(o, &size);

    return size && memmem(names, size, "__rseq_cs", 9);
}

void object_find_restarts(struct object *o)
{
    static const char signature[] = "\x0f\xb9\x3d\x53\x30\x05\x53";

    for (size_t i = 0; i < o->n_segments; i++) {
        const struct segment *s = &o->segments[i];

        if (s->flags & PF_X &&
            memmem(s->bytes, s->file_end - s->start, signature, sizeof signature - 1))
            o->flags |= ANALYSIS_RESTARTS;
    }
    if (has_restart_section(o))
        o->flags |= ANALYSIS_RESTARTS;
}
