/* SPDX-License-Identifier: MIT
 *
 * isolate.c: the data of a library can be read and written by threads alone that are inside of it:
 *     [isolate]
 *     library = libvault.so
 *     gate.1 = vault_open
 *     gate.2 = vault_sign
 *
 * Calls of the functions that are listed, of other objects or through pointers that the host loader filled, go through
 * gates, and so do the library's constructors and destructors.  Such a function has all its arguments in registers.  Who
 * calls another one, or one that dlsym found, or follows a pointer into the data, gets SIGSEGV.
 *
 *     gate:  push %rbp; mov %rsp, %rbp; keep argument registers; old = enter(); restore them
 *            call *target
 *            keep %rax, %rdx; leave(old); restore them; pop %rbp; ret
 *
 * With protection keys a gate opens the data for its thread: rdpkru, wrpkru.  Without, by mprotect for all, while any
 * thread is inside.  What the library calls, and a thread that it starts, has access as itself; an exception or a
 * longjmp out of it leaves it open; and there is nothing that keeps other code of the process from opening it.
 */
#include <mvld/freestanding.h>
#include <mvld/pass.h>

#include <elf.h>         /* numbers and formats only */
#include <sys/syscall.h> /* numbers only */

enum { LIBRARY, GATES };

static const struct mvld_option options[] = {
    {.name = "library", .type = MVLD_OPTION_STRING, .initial = "", .help = "its file name"},
    {.name = "gate.", .type = MVLD_OPTION_PREFIX, .help = "a function of it, whose arguments are in registers"},
    {.name = NULL},
};

#define GATES_MAX 256
#define RANGES_MAX 4
static struct domain {
    const struct mvld_context *ctx;
    const struct mvld_object *object;
    struct range { uintptr_t start, end; } data[RANGES_MAX], arrays[2];
    size_t n_data, n_gates;
    uintptr_t targets[GATES_MAX];
    struct gate *gates;
    long key; /* negative: there is none */
    int lock;
    size_t inside;
} domain;

/* ---- at run time ------------------------------------------------------------------------ */

static long syscall4(long number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)
{
    register uintptr_t r10 __asm__("r10") = d;
    long result;

    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

/* A handler that comes in between would wait for its own thread. */
static void change_slowly(struct domain *d, int enters)
{
    uint64_t all = ~0ull, blocked;

    syscall4(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (uintptr_t)&all, (uintptr_t)&blocked, sizeof all);
    while (__atomic_exchange_n(&d->lock, 1, __ATOMIC_ACQUIRE))
        __builtin_ia32_pause();
    d->inside -= !enters;
    for (size_t i = 0; !d->inside && i < d->n_data; i++)
        syscall4(SYS_mprotect, d->data[i].start, d->data[i].end - d->data[i].start, enters ? 3 : 0, 0);
    d->inside += enters != 0;
    __atomic_store_n(&d->lock, 0, __ATOMIC_RELEASE);
    syscall4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (uintptr_t)&blocked, 0, sizeof all);
}

static void write_rights(uint32_t rights)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xef" /* wrpkru */ : : "a"(rights), "c"(0), "d"(0) : "memory");
}

static uint64_t enter(struct domain *d)
{
    uint32_t rights = 0, high;

    if (d->key < 0) {
        change_slowly(d, 1);
    } else {
        __asm__ volatile(".byte 0x0f, 0x01, 0xee" /* rdpkru */ : "=a"(rights), "=d"(high) : "c"(0));
        write_rights(rights & ~(3u << 2 * d->key));
    }
    return rights;
}

static void leave(struct domain *d, uint64_t old)
{
    if (d->key < 0)
        change_slowly(d, 0);
    else
        write_rights((uint32_t)old);
}

/* ---- gates --------------------------------------------------------------------------------- */

struct gate {
    uint8_t before[21]; struct domain *domain; uint8_t to_enter[2]; uint64_t (*enter)(struct domain *); uint8_t entered[19];
    uintptr_t target; uint8_t called[11]; struct domain *again; uint8_t to_leave[2]; void (*leave)(struct domain *, uint64_t);
    uint8_t left[6], pad[11];
} __attribute__((packed));

static const struct gate pattern = {
    .before = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, /* push %rbp; mov %rsp, %rbp; sub $16, %rsp */
               0x57, 0x56, 0x52, 0x51, 0x41, 0x50, 0x41, 0x51, /* push %rdi, %rsi, %rdx, %rcx, %r8, %r9 */
               0x50, 0x41, 0x52, 0x48, 0xbf},                  /* push %rax, %r10; movabs $domain, %rdi */
    .to_enter = {0x48, 0xb8},                                  /* movabs $enter, %rax */
    .entered = {0xff, 0xd0, 0x48, 0x89, 0x45, 0xf8,            /* call *%rax; mov %rax, -8(%rbp) */
                0x41, 0x5a, 0x58, 0x41, 0x59, 0x41, 0x58,      /* pop %r10, %rax, %r9, %r8 */
                0x59, 0x5a, 0x5e, 0x5f, 0x49, 0xbb},           /* pop %rcx, %rdx, %rsi, %rdi; movabs $target, %r11 */
    .called = {0x41, 0xff, 0xd3, 0x50, 0x52,                   /* call *%r11; push %rax, %rdx */
               0x48, 0x8b, 0x75, 0xf8, 0x48, 0xbf},            /* mov -8(%rbp), %rsi; movabs $domain, %rdi */
    .to_leave = {0x48, 0xb8},                                  /* movabs $leave, %rax */
    .left = {0xff, 0xd0, 0x5a, 0x58, 0xc9, 0xc3},              /* call *%rax; pop %rdx, %rax; leave; ret */
};
static const uint8_t frame[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, /* CFA = %rsp + 16, then %rbp + 16 */
                                0x02, 96, 0x0c, 7, 8, 0xc6};            /* behind `leave`: %rsp + 8, %rbp as it was */

/* Its number; or n_gates. */
static size_t gate_of(uintptr_t target)
{
    size_t i = 0;

    while (i < domain.n_gates && domain.targets[i] != target)
        i++;
    return i;
}

static void want_gate(uintptr_t target)
{
    if (gate_of(target) == domain.n_gates && domain.n_gates < GATES_MAX)
        domain.targets[domain.n_gates++] = target;
}

static int is_in_array(uintptr_t word)
{
    return (word >= domain.arrays[0].start && word < domain.arrays[0].end) ||
           (word >= domain.arrays[1].start && word < domain.arrays[1].end);
}

static int want_word(void *cookie, const struct mvld_reference *r)
{
    (void)cookie;
    if (is_in_array(r->site))
        want_gate(r->target);
    return 0;
}

static int lead(void *failed, const struct mvld_reference *r)
{
    size_t i = gate_of(r->found);

    if (i < domain.n_gates && r->target == r->found)
        *(int *)failed |= domain.ctx->api->reference_retarget(domain.ctx, r, (uintptr_t)&domain.gates[i]);
    return *(int *)failed;
}

static int make_gates(void)
{
    const struct mvld_context *ctx = domain.ctx;
    struct mvld_new_function *functions = ctx->api->alloc(ctx->image, (domain.n_gates + 1) * sizeof *functions);

    for (size_t i = 0; functions && i < domain.n_gates; i++)
        functions[i] = (struct mvld_new_function){"gate", (uint32_t)(i * sizeof *domain.gates), 101, frame, sizeof frame};
    domain.gates = functions ? ctx->api->code_add(ctx, domain.n_gates * sizeof *domain.gates, functions, domain.n_gates, 0)
                             : NULL;
    for (size_t i = 0; domain.gates && i < domain.n_gates; i++) {
        domain.gates[i] = pattern;
        domain.gates[i].domain = domain.gates[i].again = &domain;
        domain.gates[i].enter = enter;
        domain.gates[i].leave = leave;
        domain.gates[i].target = domain.targets[i];
    }
    ctx->api->release(ctx->image, functions);
    return domain.gates ? 0 : -12 /* ENOMEM */;
}

/* ---- what is behind them --------------------------------------------------------------------- */

static int protect(void)
{
    const struct mvld_api *api = domain.ctx->api;
    const struct mvld_section *section;
    int error = 0;

    for (size_t i = 0; !error && (section = api->section_at(domain.ctx->image, domain.object, i)); i++) {
        if (section->kind != MVLD_SECTION_DATA || domain.n_data == RANGES_MAX)
            continue;
        domain.data[domain.n_data++] = (struct range){section->address, section->address + section->size};
        error = api->section_protect(domain.ctx, section, domain.key < 0 ? 0 : 3, (int)domain.key < 0 ? -1 : (int)domain.key);
    }
    return error;
}

static void read_arrays(void)
{
    uintptr_t bias = domain.object->bias;

    for (const Elf64_Dyn *d = domain.object->dynamic; d && d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_INIT_ARRAY: domain.arrays[0].start = bias + d->d_un.d_ptr; break;
        case DT_FINI_ARRAY: domain.arrays[1].start = bias + d->d_un.d_ptr; break;
        case DT_INIT_ARRAYSZ: domain.arrays[0].end = d->d_un.d_val; break;
        case DT_FINI_ARRAYSZ: domain.arrays[1].end = d->d_un.d_val; break;
        }
    domain.arrays[0].end += domain.arrays[0].start;
    domain.arrays[1].end += domain.arrays[1].start;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const uint32_t kinds = MVLD_REFERENCES(MVLD_REFERENCE_SLOT) | MVLD_REFERENCES(MVLD_REFERENCE_WORD);
    const struct mvld_api *api = ctx->api;
    struct mvld_symbol symbol;
    const char *why;
    int error = 0;

    domain.ctx = ctx;
    for (size_t i = 0; i < n && !ctx->later; i++)
        if (!mvld_strcmp(mvld_file_name(objects[i]->name), ctx->settings[LIBRARY].text))
            domain.object = objects[i];
    if (!domain.object)
        return 0;
    if (!ctx->later) {
        domain.key = api->key_add(ctx);
        read_arrays();
        for (size_t i = GATES; i < ctx->n_settings; i++)
            if (api->symbol_find(domain.object, ctx->settings[i].text, NULL, &symbol))
                return api->fail(ctx->image, 2 /* ENOENT */, "isolate: %s has no %s", domain.object->name, ctx->settings[i].text);
            else
                want_gate(symbol.address);
        error = api->reference_each(ctx->image, domain.object, MVLD_REFERENCES(MVLD_REFERENCE_WORD), want_word, NULL, &why);
        error = error ? error : make_gates();
        error = error ? error : protect();
        api->domain_move(ctx->image, domain.object, (size_t)api->domain_add(ctx->image, "isolated"));
        api->log(ctx->image, MVLD_LOG_PASSES, "isolate: %s: %zu gates, %s", domain.object->name, domain.n_gates,
                 domain.key < 0 ? "by mprotect" : "by a protection key");
    }
    for (size_t i = 0; i < n && !error; i++)
        if (!objects[i]->why)
            api->reference_each(ctx->image, objects[i], kinds, lead, &error, &why);
    return error;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "isolate", .help = "a library's data behind gates", .options = options, .run = run,
    .library = "libconcat.so.1", .flags = MVLD_PASS_ANALYSIS,
};
