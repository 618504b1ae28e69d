/* SPDX-License-Identifier: MIT
 *
 * isolate.c: gives only threads that are inside a library access to its data:
 *     [isolate]
 *     library = libvault.so
 *     gate.1 = vault_open
 *
 * Calls of the listed functions, by other objects and through pointers that the host loader filled, go through gates,
 * and so do constructors and destructors.  A listed function has all its arguments in registers.  A call of another
 * function, or of an address from dlsym, and an access through a pointer into the data, raise SIGSEGV.
 *
 * With protection keys a gate opens the data for its thread; without, by mprotect for all threads, while any is inside.
 * Functions that the library calls, and threads that it starts, have the same access; after an exception or a longjmp
 * out of it the data stays open; and other code of the process can open it.
 */
#include <mvld/freestanding.h>
#include <mvld/pass.h>
#include <elf.h>         /* numbers and formats only */
#include <sys/syscall.h> /* numbers only */

enum { LIBRARY, GATES, GATES_MAX = 256 };

static const struct mvld_option options[] = {
    {.name = "library", .type = MVLD_OPTION_STRING, .initial = "", .help = "its file name"},
    {.name = "gate.", .type = MVLD_OPTION_PREFIX, .help = "a function of it, with all arguments in registers"},
    {.name = NULL},
};

static struct domain {
    const struct mvld_api *api;
    const struct mvld_object *object;
    size_t start, size, inside, n_gates, targets[GATES_MAX]; /* of its data; functions that have gates */
    uint8_t (*gates)[112];
    int key, lock; /* negative: none */
} domain;

static void call_kernel(long number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)
{
    register uintptr_t r10 __asm__("r10") = d;

    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
}

static void change_slowly(struct domain *d, int enters)
{
    uint64_t all = ~0ull, blocked; /* a handler would wait for its own thread */

    call_kernel(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (uintptr_t)&all, (uintptr_t)&blocked, sizeof all);
    while (__atomic_exchange_n(&d->lock, 1, __ATOMIC_ACQUIRE))
        __builtin_ia32_pause();
    d->inside -= !enters;
    if (!d->inside)
        call_kernel(SYS_mprotect, d->start, d->size, enters ? 3 : 0, 0);
    d->inside += enters != 0;
    __atomic_store_n(&d->lock, 0, __ATOMIC_RELEASE);
    call_kernel(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (uintptr_t)&blocked, 0, sizeof all);
}

static void leave(struct domain *d, uint64_t rights)
{
    if (d->key < 0)
        return change_slowly(d, 0);
    __asm__ volatile(".byte 0x0f, 0x01, 0xef" /* wrpkru */ : : "a"((uint32_t)rights), "c"(0), "d"(0) : "memory");
}

static uint64_t enter(struct domain *d)
{
    uint32_t rights = 0, high;

    if (d->key < 0)
        return change_slowly(d, 1), 0;
    __asm__ volatile(".byte 0x0f, 0x01, 0xee" /* rdpkru */ : "=a"(rights), "=d"(high) : "c"(0));
    leave(d, rights & ~(3u << 2 * d->key));
    return rights;
}

#define ANY 0, 0, 0, 0, 0, 0, 0, 0
static const uint8_t pattern[112] = {
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10,                   /* push %rbp; mov %rsp, %rbp; sub $16, %rsp */
    0x57, 0x56, 0x52, 0x51, 0x41, 0x50, 0x41, 0x51, 0x50, 0x41, 0x52, /* push %rdi, %rsi, %rdx, %rcx, %r8, … */
    0x48, 0xbf, ANY, 0x48, 0xb8, ANY,                                 /* movabs $domain, %rdi; $enter, %rax */
    0xff, 0xd0, 0x48, 0x89, 0x45, 0xf8,                               /* call *%rax; mov %rax, -8(%rbp) */
    0x41, 0x5a, 0x58, 0x41, 0x59, 0x41, 0x58, 0x59, 0x5a, 0x5e, 0x5f, /* pop %r10, %rax, %r9, %r8, … */
    0x49, 0xbb, ANY, 0x41, 0xff, 0xd3, 0x50, 0x52,                    /* $target, %r11; call *%r11; push %rax, %rdx */
    0x48, 0x8b, 0x75, 0xf8, 0x48, 0xbf, ANY, 0x48, 0xb8, ANY,         /* mov -8(%rbp), %rsi; $domain, %rdi; $leave, … */
    0xff, 0xd0, 0x5a, 0x58, 0xc9, 0xc3,                               /* call *%rax; pop %rdx, %rax; leave; ret */
};
static const uint8_t frame[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, /* CFA = %rsp + 16, then %rbp + 16 */
                                0x02, 96, 0x0c, 7, 8, 0xc6};            /* behind `leave`: %rsp + 8, %rbp as it was */

/* The index of the gate; or n_gates. */
static size_t gate_of(uintptr_t target)
{
    for (size_t i = 0; i < domain.n_gates; i++)
        if (domain.targets[i] == target)
            return i;
    return domain.n_gates;
}

static int want_gate(uintptr_t target)
{
    if (gate_of(target) == domain.n_gates && domain.n_gates < GATES_MAX)
        domain.targets[domain.n_gates++] = target;
    return gate_of(target) == domain.n_gates ? -7 /* E2BIG */ : 0;
}

static int lead(void *ctx, const struct mvld_reference *r)
{
    size_t i = gate_of(r->found);

    return i == domain.n_gates ? 0 : domain.api->reference_retarget(ctx, r, (uintptr_t)&domain.gates[i]);
}

static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    size_t i = gate_of(bound->found);

    *target = i < domain.n_gates ? (uintptr_t)&domain.gates[i] /* or the slot leads there by now */
              : bound->found - (uintptr_t)domain.gates < domain.n_gates * sizeof pattern ? bound->found : 0;
    return (void)ctx, (void)object, *target ? NULL : "it leads to no gate";
}

static int make_gates(const struct mvld_context *ctx)
{
    static const uint8_t places[] = {21, 31, 58, 77, 87};
    struct mvld_new_function functions[GATES_MAX];

    for (size_t i = 0; i < domain.n_gates; i++)
        functions[i] = (struct mvld_new_function){"gate", (uint32_t)(i * sizeof pattern), 101, frame, sizeof frame};
    domain.gates = domain.api->code_add(ctx, domain.n_gates * sizeof pattern, functions, domain.n_gates, 0);
    for (size_t i = 0; domain.gates && i < domain.n_gates; i++) {
        const void *values[] = {&domain, enter, (void *)domain.targets[i], &domain, leave};

        memcpy(domain.gates[i], pattern, sizeof pattern);
        for (size_t k = 0; k < sizeof places; k++)
            memcpy(&domain.gates[i][places[k]], &values[k], sizeof values[k]);
    }
    return domain.gates ? 0 : -12 /* ENOMEM */;
}

static int isolate(const struct mvld_context *ctx)
{
    const struct mvld_api *api = ctx->api;
    const struct mvld_section *section;
    struct mvld_symbol symbol;
    uintptr_t called[4] = {0};
    int slow, error = 0;

    for (const Elf64_Dyn *d = domain.object->dynamic; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag >= DT_INIT_ARRAY && d->d_tag <= DT_FINI_ARRAYSZ)
            called[d->d_tag - DT_INIT_ARRAY] = d->d_un.d_val; /* two addresses, then two sizes */
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < called[2 + i] / sizeof(uintptr_t) && !error; k++) {
            const uintptr_t *word = (const uintptr_t *)(domain.object->bias + called[i]) + k;
            if (api->object_holds(domain.object, (uintptr_t)word, sizeof *word, 1 /* PROT_READ */))
                error = want_gate(api->original_of(ctx->image, *word) ? api->original_of(ctx->image, *word) : *word);
        }
    for (size_t i = GATES; i < ctx->n_settings && !error; i++)
        error = api->symbol_find(domain.object, ctx->settings[i].text, NULL, &symbol)
                    ? api->fail(ctx->image, 2 /* ENOENT */, "isolate: there is no %s", ctx->settings[i].text)
                    : want_gate(symbol.address);
    error = error ? error : make_gates(ctx);
    error = error ? error : api->domain_move(ctx->image, domain.object, (size_t)api->domain_add(ctx->image, "isolate"));
    domain.key = (int)api->key_add(ctx);
    slow = domain.key < 0;
    for (size_t i = 0; !error && (section = api->section_at(ctx->image, domain.object, i)); i++)
        if (section->kind == MVLD_SECTION_DATA) {
            error = domain.size ? -95 /* ENOTSUP */ : api->section_protect(ctx, section, slow ? 0 : 3, domain.key);
            domain.start = section->address, domain.size = section->size;
        }
    api->log(ctx->image, MVLD_LOG_PASSES, "isolate: %zu gates, by %s", domain.n_gates, slow ? "mprotect" : "a key");
    return error;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const uint32_t words = MVLD_REFERENCES(MVLD_REFERENCE_WORD), slots = MVLD_REFERENCES(MVLD_REFERENCE_SLOT);
    const struct mvld_api *api = domain.api = ctx->api;
    const char *why;
    int error = 0;

    for (size_t i = 0; i < n && !ctx->later; i++)
        if (!mvld_strcmp(mvld_file_name(objects[i]->name), ctx->settings[LIBRARY].text))
            domain.object = objects[i];
    error = domain.object && !ctx->later ? isolate(ctx) : 0;
    for (size_t i = 0; domain.object && i < n && !error; i++) {
        int inside = api->domain_of(objects[i]) == api->domain_of(domain.object); /* its own calls stay so */
        if (!objects[i]->why)
            error = api->reference_each(ctx->image, objects[i], words | (inside ? 0 : slots), lead, (void *)ctx, &why);
        if (!objects[i]->why && !inside && !error)
            error = api->calls_retarget(ctx, objects[i], rule);
    }
    return error;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "isolate", .help = "a library's data behind gates", .options = options, .run = run,
    .library = "libconcat.so.1", .flags = MVLD_PASS_ANALYSIS,
};
