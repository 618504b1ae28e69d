/* SPDX-License-Identifier: MIT
 *
 * A pass with one fault, chosen by FAULT_x when it is compiled; for pass_map.c.
 */
#include <mvld/pass.h>

#define PUBLIC __attribute__((visibility("default")))

__attribute__((unused)) static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    (void)ctx;
    (void)objects;
    (void)n;
    return 0;
}

#ifdef FAULT_undefined
extern int somebody_else;
PUBLIC int *reaches_out(void) { return &somebody_else; }
#endif
#ifdef FAULT_plt
/* In assembly: clang calls a function of its own file without asking who else has it. */
__asm__(".globl helper; .type helper,@function; helper: mov $1,%eax; ret; .size helper,.-helper");
extern int helper(void);
PUBLIC int calls(void) { return helper(); }
#endif
#ifdef FAULT_undefined_call
extern int printf(const char *, ...);
PUBLIC int calls(void) { return printf("nobody"); }
#endif
#ifdef FAULT_relocation
PUBLIC int exported = 1;
PUBLIC int *symbolic = &exported;
#endif
#ifdef FAULT_tls
PUBLIC __thread int mine;
#endif
#ifdef FAULT_constructor
PUBLIC volatile int begun;
__attribute__((constructor)) static void begin(void) { begun = 1; }
#endif
#ifdef FAULT_option_type
static const struct mvld_option bad_options[] = {{.name = "o", .type = (enum mvld_option_type)9},
                                             {.name = NULL}};
#elif defined(FAULT_option_range)
static const struct mvld_option bad_options[] = {
    {.name = "o", .type = MVLD_OPTION_INT, .min = 3, .max = 2}, {.name = NULL}};
#elif defined(FAULT_option_words)
static const struct mvld_option bad_options[] = {{.name = "o", .type = MVLD_OPTION_WORD},
                                             {.name = NULL}};
#elif defined(FAULT_option_twice)
static const struct mvld_option bad_options[] = {{.name = "o", .type = MVLD_OPTION_BOOL},
                                             {.name = "o", .type = MVLD_OPTION_BOOL},
                                             {.name = NULL}};
#elif defined(FAULT_option_text)
static const struct mvld_option bad_options[] = {
    {.name = "o", .type = MVLD_OPTION_STRING, .initial = (const char *)0x10}, {.name = NULL}};
#elif defined(FAULT_option_name)
static const struct mvld_option bad_options[] = {{.name = (const char *)0x10}, {.name = NULL}};
#elif defined(FAULT_option_list)
#define bad_options ((const struct mvld_option *)0x10)
#elif defined(FAULT_option_default)
static const struct mvld_option bad_options[] = {
    {.name = "o", .type = MVLD_OPTION_INT, .max = 2, .initial = "3"}, {.name = NULL}};
#else
#define bad_options NULL
#endif
#ifdef FAULT_list
static const char *const bad_list[] = {"Not A Name", NULL};
#else
#define bad_list NULL
#endif
#ifdef FAULT_writable_text
__asm__(".pushsection .evil,\"awx\",@progbits; ret; .popsection");
#endif

#if defined(FAULT_size)
PUBLIC const struct {
    uint32_t abi;
    const char *name;
} mvld_pass = {MVLD_PASS_ABI, "bad"};
#elif !defined(FAULT_missing)
PUBLIC const struct mvld_pass mvld_pass = {
#ifdef FAULT_abi
    .abi = MVLD_PASS_ABI + 1,
#else
    .abi = MVLD_PASS_ABI,
#endif
#ifdef FAULT_name
    .name = "Bad Name",
#elif defined(FAULT_app)
    .name = "app",
#elif defined(FAULT_other_name)
    .name = "other",
#elif defined(FAULT_name_pointer)
    .name = (const char *)0x1234,
#else
    .name = "bad",
#endif
#ifdef FAULT_function
    .run = (int (*)(const struct mvld_context *, const struct mvld_object *const *, size_t))(
        const void *)&mvld_pass,
#else
    .run = run,
#endif
#ifdef FAULT_library
    .library = (const char *)0x10,
#endif
#ifdef FAULT_idle
    .idle = (const char *(*)(const struct mvld_setting *, size_t))0xdeadbeef,
#endif
#ifdef FAULT_function_pointer
    .removed = (void (*)(const struct mvld_context *, const struct mvld_object *const *,
                         size_t))0xdeadbeef,
#endif
    .options = bad_options,
#ifdef FAULT_behind
    .behind = (const char *const *)0x10,
#else
    .behind = bad_list,
#endif
};
#else
PUBLIC int (*const something)(const struct mvld_context *, const struct mvld_object *const *, size_t) = run;
#endif
