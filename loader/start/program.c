/* SPDX-License-Identifier: MIT
 *
 * loader/start/program.c: identifies the program, and finds its pipeline.
 *
 * If we are an interpreter, the program is in memory, and auxv has its entry.  If we are
 * run directly, our command line names it after the host loader's own options; if these ask for anything
 * but a run, or one is unknown, there is no pipeline.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/manager/pipeline.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "rimf/elf/headers.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */
#include <signal.h> /* numbers only */

/* ---- in memory ----------------------------------------------------------------------- */

/* Where the kernel has mapped it.  Its program headers may be arbitrary: neither the kernel nor the host loader
 * checks all of them.  So only bytes in a PT_LOAD are read; of a type that should be unique the last one is used,
 * as host loaders do.  Every start reads only what the host loader reads, too (the dynamic section, the names in
 * it), or the kernel (the interpreter).
 */

/* The segment that the kernel mapped last at this address (as linked), if it is readable. */
static const Elf64_Phdr *segment_at(const struct executable *p, uint64_t linked)
{
    const Elf64_Phdr *found = NULL;

    for (size_t i = 0; i < p->n; i++)
        if (p->ph[i].p_type == PT_LOAD &&
            linked - rimf_page_down(p->ph[i].p_vaddr) <
                rimf_page_up(p->ph[i].p_vaddr + p->ph[i].p_memsz) -
                    rimf_page_down(p->ph[i].p_vaddr))
            found = &p->ph[i];
    return found && found->p_flags & PF_R ? found : NULL;
}

/* The number of bytes from there to the end of the segment. */
static size_t room_at(const struct executable *p, uint64_t linked)
{
    const Elf64_Phdr *in = segment_at(p, linked);
    uint64_t end = in ? in->p_vaddr + in->p_memsz : 0;

    for (size_t i = 0; in && i < p->n; i++) /* segments that overlap it */
        if (p->ph[i].p_type == PT_LOAD && p->ph[i].p_vaddr > linked &&
            rimf_page_down(p->ph[i].p_vaddr) < end)
            end = rimf_page_down(p->ph[i].p_vaddr);
    return in && linked >= in->p_vaddr && linked < end ? end - linked : 0;
}

/* The string there, or NULL if it is not terminated. */
static const char *string_at(const struct executable *p, uint64_t linked)
{
    const char *string = (const char *)(p->bias + linked);

    for (size_t i = 0, room = room_at(p, linked); i < room; i++)
        if (!string[i])
            return string;
    return NULL;
}

/* AddressSanitizer ends a program if a library precedes its runtime. */
static int wants_to_be_first(const char *needed)
{
    return rimf_after(needed, "libasan.so") || rimf_after(needed, "libclang_rt.asan");
}

/* A DT_NEEDED of the program; the name remains valid. */
static void program_needs(struct loader *l, const char *needed)
{
    if (elf_is_musl(needed))
        l->host->musl = 1;
    else if (wants_to_be_first(needed))
        l->injection->first = needed;
}

static void look_at_dynamic(struct loader *l, const struct executable *p, const Elf64_Phdr *at)
{
    const Elf64_Dyn *d = (const Elf64_Dyn *)(p->bias + at->p_vaddr);
    size_t n = room_at(p, at->p_vaddr) / sizeof *d;
    uint64_t strings = 0;

    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++)
        if (d[i].d_tag == DT_STRTAB)
            strings = d[i].d_un.d_ptr;
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
        const char *needed =
            d[i].d_tag == DT_NEEDED ? string_at(p, strings + d[i].d_un.d_val) : NULL;

        if (needed)
            program_needs(l, needed);
    }
}

/* The kernel has read it in the file; this is the same string. */
static const char *interpreter(const struct executable *p, const Elf64_Phdr *at)
{
    const Elf64_Phdr *in = segment_at(p, at->p_vaddr);

    return in && at->p_vaddr - in->p_vaddr == at->p_offset - in->p_offset
               ? string_at(p, at->p_vaddr)
               : NULL;
}

/* Sets l->host->musl, l->injection->first, l->interpreter. */
static void program_look(struct loader *l)
{
    struct executable p = block_executable(l->block);
    const Elf64_Phdr *dynamic = elf_phdr_last(p.ph, p.n, PT_DYNAMIC);
    const Elf64_Phdr *interp = elf_phdr_last(p.ph, p.n, PT_INTERP);

    if (dynamic)
        look_at_dynamic(l, &p, dynamic);
    l->interpreter = interp ? interpreter(&p, interp) : NULL;
}

/* NULL if it has none. */
static const uint8_t *program_build_id(const struct loader *l, size_t *size)
{
    struct executable p = block_executable(l->block);

    return elf_mapped_build_id(l->sys, p.ph, p.n, p.bias, size);
}

/* ---- run directly ---------------------------------------------------------------- */

static int one_of(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (rimf_streq(s, *list))
            return 1;
    return 0;
}

/* As from the kernel: argv[0], and the executed path. */
struct call {
    const char *name, *path;
    const char *preload; /* if run directly: the value of --preload */
};

/* Index of the program in argv, or 0.  argv[0] will be the value of the last --argv0.  `mvld run` follows
 * links before it names the program, and passes the original path in an --argv0 before that one. */
static size_t find_argument(const struct block *block, struct call *call)
{
    static const char *const with_value[] = {
        "--library-path", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask", "--inhibit-rpath",
        "--audit", "--preload", "--argv0", NULL};
    static const char *const alone[] = {"--inhibit-cache", NULL};
    size_t i = 1;

    while (i + 1 < block->argc && rimf_after(block->argv[i], "--")) {
        if (rimf_streq(block->argv[i], "--argv0"))
            *call = (struct call){.name = block->argv[i + 1], .path = call->name, .preload = call->preload};
        if (rimf_streq(block->argv[i], "--preload"))
            call->preload = block->argv[i + 1];
        if (one_of(block->argv[i], with_value))
            i += 2;
        else if (one_of(block->argv[i], alone))
            i++;
        else
            return 0;
    }
    if (i >= block->argc || rimf_after(block->argv[i], "--"))
        return 0;
    call->path = call->path ? call->path : block->argv[i];
    call->name = call->name ? call->name : block->argv[i];
    return i;
}

/* ---- its file ----------------------------------------------------------------------- */

struct identity {
    const uint8_t *build_id;
    size_t size;
};

/* For a file: the next read overwrites the name. */
static void take_needed_of_file(void *cookie, const char *needed)
{
    struct loader *l = cookie;
    char *kept = rimf_heap_copy(&l->heap, needed);

    if (kept)
        program_needs(l, kept);
}

static void look_at_file(struct loader *l, int fd, char *head, size_t room, struct identity *identity)
{
    long size = sys_pread(l->sys, fd, head, room, 0);
    size_t n;
    const Elf64_Phdr *ph = elf_headers(head, size < 0 ? 0 : (size_t)size, &n);

    if (!ph)
        return;
    elf_needed_each(l->sys, fd, ph, n, take_needed_of_file, l);
    identity->build_id = elf_head_note(head, (size_t)size, "GNU", NT_GNU_BUILD_ID, &identity->size);
}

/* ---- the plan ------------------------------------------------------------------------- */

struct where {
    struct loader *l;
    int fd; /* if run directly: the file, which is not mapped yet; else -1 */
    int asked;
    enum { NAME_UNKNOWN, NAME_CALLED, NAME_OTHER } name;
    struct identity identity;
};

/* l->program, looked up at the first use. */
static const char *find_program(void *cookie)
{
    struct where *where = cookie;
    struct loader *l = where->l;

    if (!where->asked++)
        l->program = where->fd >= 0 ? path_of_file(l, where->fd)
                                    : path_of_program(l);
    return l->program;
}

/* If run directly, the notes of its file were read before. */
static const uint8_t *find_own_build_id(void *cookie, size_t *size)
{
    struct where *where = cookie;
    const struct loader *l = where->l;

    if (!l->direct && l->block->phdr && l->block->phnum)
        where->identity.build_id = program_build_id(l, &where->identity.size);
    *size = where->identity.size;
    return where->identity.build_id;
}

/* pipeline_query.is_called: under AT_SECURE the caller's path is not trusted. */
static int is_called(void *cookie, const char *path)
{
    struct where *where = cookie;

    if (where->name == NAME_UNKNOWN)
        where->name = where->fd < 0 && !where->l->block->secure && path_is_programs(where->l, path)
                          ? NAME_CALLED
                          : NAME_OTHER;
    return where->name == NAME_CALLED;
}

static void is_meant(void *cookie)
{
    struct where *where = cookie;

    filtered_start(where->l);
}

static int wants_plan(struct loader *l)
{
    return !l->knobs->off && !l->knobs->trace;
}

/* `fd`: struct where. */
static void ask(struct loader *l, int fd, const struct call *call, const struct identity *identity)
{
    struct where where = {.l = l, .fd = fd, .identity = *identity};
    struct pipeline_query query = {
        .sys = l->sys,
        .log = &l->log,
        .envp = l->block->envp,
        .secure = l->block->secure,
        .find_program = find_program,
        .find_build_id = find_own_build_id,
        .is_called = is_called,
        .is_meant = is_meant,
        .cookie = &where,
        .name = call->name,
        .called = call->path,
        .musl = l->host->musl,
        .runs = 1,
        .late = !l->knobs->snapshot,
        .memory = l->plan_memory,
        .memory_size = PLAN_MEMORY,
    };
    int error = pipeline_plan(&query, &l->pipeline, l->refusal, sizeof l->refusal);

    if (error) {
        l->pipeline = NULL;
        say_refused(l, error);
    }
    if (!l->pipeline)
        filtered_end(l);
    if (l->pipeline || l->log.fd >= 0)
        find_program(&where); /* objects.c names the executable by its path */
}

static __attribute__((noinline)) void plan_direct(struct loader *l)
{
    struct identity identity = {0};
    struct call call = {0};
    _Alignas(8) char head[1024];
    size_t at = find_argument(l->block, &call);
    long fd;

    if (!at)
        return;
    l->knobs->preload_option = call.preload;
    for (size_t i = 1; i < at; i++)
        if (rimf_streq(l->block->argv[i], "--audit"))
            l->knobs->watcher = auditor_of("LD_AUDIT=x");
    fd = sys_openat(l->sys, l->block->argv[at], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (sys_failed(fd))
        return; /* the host loader may find it elsewhere, or report why not */
    look_at_file(l, (int)fd, head, sizeof head, &identity);
    if (wants_plan(l))
        ask(l, (int)fd, &call, &identity);
    sys_close(l->sys, (int)fd);
}

/* Sets l->host->musl, which selects the host loader; and l->program and l->pipeline if passes are
 * configured. */
void program_plan(struct loader *l)
{
    struct identity identity = {0};

    if (l->direct)
        plan_direct(l);
    else if (l->block->phdr && l->block->phnum)
        program_look(l);
    if (l->host->musl)
        l->knobs->watcher = "musl looks symbols up by rules of its own";
    if (!l->direct && l->block->entry && l->block->phdr && wants_plan(l)) {
        struct call call = {
            .name = l->block->argc ? l->block->argv[0] : NULL,
            .path = l->block->execfn ? (const char *)l->block->execfn->a_un.a_val : NULL,
        };

        ask(l, -1, &call, &identity);
    }
}
