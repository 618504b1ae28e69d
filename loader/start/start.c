/* SPDX-License-Identifier: MIT
 *
 * loader/start/start.c: everything between the kernel and the host loader, in order.
 *
 * After the jump at the end the host loader assumes that the kernel started it: as interpreter of the same
 * program, or, if we were run as a program, as a program with our arguments.  It calls us again at its
 * events (hook.c).
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/start/rooms.h"
#include "loader/store/store.h"
#include "loader/manager/pipeline.h"

#include <errno.h>        /* numbers only */
#include <fcntl.h>        /* numbers only */
#include <sys/mman.h>     /* numbers only */
#include <time.h>         /* numbers only */

extern const Elf64_Ehdr own_header __asm__("__ehdr_start") RIMF_HIDDEN;

/* We are linked with RELATIVE relocations only.  Nothing here may need relocation. */
void loader_relocate(void)
{
    uintptr_t base = (uintptr_t)&own_header, rela = 0, relro = 0, relro_end = 0;
    const Elf64_Phdr *ph = (const Elf64_Phdr *)(base + own_header.e_phoff);
    size_t size = 0;

    for (size_t i = 0; i < own_header.e_phnum; i++) {
        if (ph[i].p_type == PT_DYNAMIC) {
            for (const Elf64_Dyn *d = (const Elf64_Dyn *)(base + ph[i].p_vaddr); d->d_tag; d++) {
                if (d->d_tag == DT_RELA)
                    rela = base + d->d_un.d_ptr;
                else if (d->d_tag == DT_RELASZ)
                    size = d->d_un.d_val;
            }
        } else if (ph[i].p_type == PT_GNU_RELRO) {
            relro = rimf_page_down(base + ph[i].p_vaddr);
            relro_end = rimf_page_down(base + ph[i].p_vaddr + ph[i].p_memsz);
        }
    }
    for (const Elf64_Rela *r = (const Elf64_Rela *)rela; size >= sizeof *r;
         r++, size -= sizeof *r)
        *(uintptr_t *)(base + r->r_offset) = base + (uintptr_t)r->r_addend;
    if (relro_end > relro)
        rimf_syscall(SYS_mprotect, (long)relro, (long)(relro_end - relro), PROT_READ, 0, 0, 0);
}

/* ---- LD_PRELOAD --------------------------------------------------------------------------- */

static int can_preload(struct loader *l, const char *library, int spacious)
{
    if (spacious && l->knobs->watcher) { /* and an auditor would see an additional library */
        rimf_log(&l->log, MVLD_LOG_FILES, "%s: not preloaded: %s", library, l->knobs->watcher);
        return 0;
    }
    if (spacious && space_is_limited(l)) {
        rimf_log(&l->log, MVLD_LOG_WARNING,
                 "%s: not preloaded: address space is limited (RLIMIT_AS)", library);
        return 0;
    }
    for (const char *p = library; *p; p++) {
        if (*p == ':' || *p == ' ' || *p == '$') {
            rimf_log(&l->log, MVLD_LOG_WARNING, "%s: not preloaded: LD_PRELOAD cannot say its name",
                     library);
            return 0;
        }
    }
    return 1;
}

static void add_preload(char *text, size_t size, const char *library)
{
    size_t n = rimf_strlen(text);

    rimf_format(text + n, size - n, "%s%s", n == sizeof "LD_PRELOAD=" - 1 ? "" : ":",
                library);
}

static void preload(struct loader *l)
{
    const char *library, *users = l->knobs->preload ? l->knobs->preload : "LD_PRELOAD=";
    const char *first = l->injection->first;
    size_t size = rimf_strlen(users) + 2 + (first ? rimf_strlen(first) + 1 : 0), good = 0;
    char *text;

    if (!l->pipeline || l->block->secure || !pipeline_library(l->pipeline, 0))
        return;
    for (size_t i = 0; (library = pipeline_library(l->pipeline, i)); i++)
        size += rimf_strlen(library) + 1;
    text = rimf_heap_alloc(&l->heap, size);
    if (!text)
        return;
    rimf_format(text, size, "%s", users);
    if (first)
        add_preload(text, size, first);
    for (size_t i = 0; (library = pipeline_library(l->pipeline, i)); i++) {
        if (!can_preload(l, library, pipeline_library_is_spacious(l->pipeline, i)))
            continue;
        add_preload(text, size, library);
        good++;
    }
    if (!good)
        return;
    l->injection->users = l->knobs->preload;
    block_inject(l->block, l->injection, text);
    rimf_log(&l->log, MVLD_LOG_FILES, "preload: %s", text);
}

/* ---- the state of the rooms ----------------------------------------------------------------- */

void rooms_set(struct loader *l, struct rooms *rooms)
{
    l->block = &rooms->block;
    l->injection = &rooms->injection;
    l->knobs = &rooms->knobs;
    l->filtered = &rooms->filtered;
    l->cpuid = &rooms->cpuid;
    l->caches = &rooms->caches;
    l->arena = &rooms->arena;
    l->files = &rooms->files;
    l->host = &rooms->host;
    l->caller = &rooms->caller;
    l->snapshot = &rooms->snapshot;
    l->later = &rooms->later;
    l->maps = &rooms->maps;
    l->main = &rooms->main;
    l->init = &rooms->init;
    l->mapstage = &rooms->mapstage;
    l->relocatestage = &rooms->relocatestage;
    l->at = rooms->at;
    l->plan_memory = rooms->plan_memory;
}

static struct rooms own_rooms; /* begins in the page of loader_state (loader/meson.build) */

/* ---- MVLD_DEBUG=statistics ------------------------------------------------------------------ */

static uint64_t now(const struct loader *l)
{
    struct timespec time = {0};

    SYS3(l->sys, SYS_clock_gettime, CLOCK_MONOTONIC, &time, 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void stage_time(struct loader *l, int stage)
{
    static const char *const names[STAGES] = {
        [STAGE_PLANNED] = "configuration and pipeline",
        [STAGE_MAPPED] = "host loader mapped",
        [STAGE_PATCHED] = "host loader hooked",
        [STAGE_HOOK] = "host loader's own work",
        [STAGE_RUN] = "image and passes",
    };

    if (!rimf_log_enabled(&l->log, MVLD_LOG_STATISTICS))
        return;
    if (stage)
        rimf_log(&l->log, MVLD_LOG_STATISTICS, "start-up: %s: %lu ns", names[stage], now(l) - l->at[stage - 1]);
    l->at[stage] = now(l); /* without this line */
}

/* ---- steps ------------------------------------------------------------------------------------ */

static void look_around(struct loader *l, uintptr_t *sp)
{
    rooms_set(l, &own_rooms);
    l->sys = &rimf_sys_kernel;
    l->log.sys = l->sys;
    l->log.fd = -1;
    rimf_heap_init(&l->heap, l->sys);
    rimf_heap_seed(&l->heap, own_rooms.first_memory, sizeof own_rooms.first_memory);
    block_read(l->block, sp);
    l->direct = l->block->entry && l->block->entry->a_un.a_val == (uintptr_t)loader_entry;
    l->vdso_bias = l->block->vdso ? l->block->vdso->a_un.a_val : 0;
    knobs_read(l);
    rimf_heap_set_alone(&l->heap, !l->knobs->watcher); /* LD_AUDIT modules may start threads */
    stage_time(l, STAGE_START);
}

/* Not if a pass has the stage `map`: it may have to refuse files. */
static int leave_out(struct loader *l)
{
    if (!space_is_short(l))
        return 0;
    store_complete(l);
    if (pipeline_wants_files(l->pipeline))
        return 0;
    rimf_format(l->refusal, sizeof l->refusal, "address space is limited to less than 8 MiB (RLIMIT_AS)");
    rimf_log(&l->log, MVLD_LOG_WARNING, "mvld: %s: the program runs untransformed", l->refusal);
    pipeline_free(l->pipeline);
    l->pipeline = NULL;
    return 1;
}

static void prepare(struct loader *l)
{
    if (leave_out(l))
        return;
    files_start(l);
    place_plan(l);
    if (pipeline_flags(l->pipeline) & MVLD_PASS_ANALYSIS)
        auditor_look(l);
    store_find(l);
    if (!pipeline_count(l->pipeline)) { /* a pass was refused */
        l->pipeline = NULL;
        l->arena->end = 0;
        return;
    }
    pipeline_on_crash(l->pipeline, l->sys, say_error, l);
    place_finish(l);
    layout_choose(l);
    mapstage_start(l);
    if (pipeline_wants_symbols(l->pipeline))
        relocatestage_start(l);
}

static void hook(struct loader *l)
{
    const struct host_entries entries = {
        .hook = (uintptr_t)loader_hook_entry,
        .mmap = l->arena->end || l->mapstage->wanted || l->relocatestage->wanted ? (uintptr_t)loader_mmap_sites : 0,
        .mmap_musl = (uintptr_t)loader_mmap_musl,
    };

    l->hooked = host_hook(l, &entries) == 0;
    mapstage_require(l, l->hooked ? l->mmap_return[0] : 0);
    if (l->hooked)
        preload(l); /* only what the hook can remove again */
    else
        store_forget(l); /* it will not be applied */
}

/* Changes what the host loader reads of auxv.  The kernel's own copy (/proc/self/auxv) still names us: a
 * debugger finds our _dl_debug_state through it. */
static void hand_over(struct loader *l)
{
    const struct host *host = l->host;

    if (l->direct) { /* the host loader then works in its direct mode */
        if (l->block->entry)
            l->block->entry->a_un.a_val = host->entry;
        if (l->block->phdr)
            l->block->phdr->a_un.a_val = (uintptr_t)host->phdr;
        if (l->block->phnum)
            l->block->phnum->a_un.a_val = host->phnum;
    } else if (l->block->base) {
        l->block->base->a_un.a_val = host->bias;
    }
}

static __attribute__((noinline, noreturn)) void give_up(struct loader *l, const int *errors)
{
    char why[512];

    host_explain(l, errors, why, sizeof why);
    say_and_exit(l->sys, why);
}

/* ---- the order ------------------------------------------------------------------------------ */

/* A start, and between the lines what is true there.  Its second half is the host loader's, which
 * calls us back: the list goes on where those functions stand that it calls. */
struct start loader_start(struct loader *l, uintptr_t *sp)
{
    int errors[HOST_CANDIDATES];

    /* The kernel has mapped the program and us, and we are relocated.  No system call was made. */
    look_around(l, sp);
    /* Known: arguments, environment, auxv, and the MVLD variables. */
    program_plan(l);
    /* Known: the program, and its pipeline.  Most programs have none: then no call was made that the host
     * loader would not make, and the rest is to map it and to jump there. */
    if (l->pipeline)
        prepare(l);
    /* Known: the arena for objects, and the snapshot.  The stage `map` has accepted the executable. */
    stage_time(l, STAGE_PLANNED);
    if (host_open(l, errors))
        give_up(l, errors);
    /* The host loader is mapped, and nothing of it has run.  Its text can still be changed. */
    stage_time(l, STAGE_MAPPED);
    if (!l->knobs->off)
        hook(l);
    /* The host loader's calls of mmap, its cpuid instructions and its _dl_debug_state jump to us (entry.S);
     * LD_PRELOAD names the libraries of passes. */
    store_or_exit(l);
    sys_close(l->sys, l->host->fd);
    stage_time(l, STAGE_PATCHED);
    hand_over(l);
    return (struct start){l->host->entry, (uintptr_t)l->block->sp};
    /* The host loader runs, and calls
     *
     *   loader_mmap        for each mapping (mapped.c).  An object's file goes through the stage `map`, gets
     *                      its address, and when all of it is mapped goes through the stage `relocate`.  When
     *                      the last object is mapped, none is relocated: the dynamic sections now point to the
     *                      snapshot's tables (relocations_replace).
     *   loader_event       at the end (hook.c, first_event): all objects are relocated, and no constructor has
     *                      run.  objects_start makes the image; then either the snapshot's code is mapped
     *                      (store_begin), or passes run, and their edits are made.  LD_PRELOAD has the user's
     *                      value again.
     *
     * Constructors run, and main.  In each dlopen loader_mmap is called as above, then
     *
     *   loader_event       the link map has changed (objects_changed): passes are told of closed objects; for new
     *                      ones, whose constructors have not run, init_catch waits:
     *   loader_init        the first new object is relocated, and its first constructor would run now
     *                      (objects_relocated): its learnt code is mapped, or passes run. */
}
