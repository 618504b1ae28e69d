/* SPDX-License-Identifier: MIT
 *
 * doctor/parts.c: the host loader, configuration files, passes, the compiler.
 */
#include "tools/config/make.h"
#include "tools/common/paths.h"
#include "tools/doctor/doctor.h"
#include "tools/common/elf_file.h"
#include "tools/config/passes.h"
#include "tools/enable/enable.h"
#include "tools/run/program.h"

#include "loader/config/config.h"
#include "loader/known_build_id.h"
#include "loader/manager/pipeline.h"
#include "rimf/base/log.h"
#include "rimf/base/trusted.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* ---- the host loader ------------------------------------------------------------ */

static const struct elf_symbol *find_function(const struct elf_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_functions; i++)
        if (!strcmp(f->functions[i].name, name))
            return &f->functions[i];
    return NULL;
}

/* The version sentence of a libc. */
static void report_version(struct report *r, const struct elf_file *f)
{
    static const char *const marks[] = {" release version ", "musl libc"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const unsigned char *at = memmem(f->bytes, f->size, marks[i], strlen(marks[i]));
        if (!at)
            continue;
        const unsigned char *begin = at, *end = at;
        while (begin > f->bytes && begin[-1] >= 0x20 && begin[-1] < 0x7f)
            begin--;
        while (end < f->bytes + f->size && *end >= 0x20 && *end < 0x7f)
            end++;
        int n = (int)(end - begin < 200 ? end - begin : 200);
        report_finding(r, "version", FINDING_OK, NULL, "%.*s", n, (const char *)begin);
        return;
    }
    report_finding(r, "version", FINDING_ABSENT, NULL, "it does not say");
}

/* Whether _dl_debug_state has space for `jmp rel32`: `ret`, or `endbr64; ret`, and padding up to 5
 * bytes. */
static int hookable(const uint8_t *b)
{
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    static const uint8_t nops[][4] = {
        {0x66, 0x66, 0x2e, 0x0f}, /* data16 cs nopw … */
        {0x66, 0x2e, 0x0f, 0x1f}, /* cs nopw … */
        {0x0f, 0x1f, 0x00, 0x00}, /* nopl (%rax) + 1 */
        {0x0f, 0x1f, 0x40, 0x00}, /* nopl 0(%rax) */
        {0x0f, 0x1f, 0x44, 0x00}, /* nopl 0(%rax,%rax,1) */
        {0x0f, 0x1f, 0x80, 0x00}, /* nopl 0(%rax) with disp32 */
        {0x0f, 0x1f, 0x84, 0x00}, /* nopl 0(%rax,%rax,1) with disp32 */
        {0x90, 0x90, 0x90, 0x90}, {0xcc, 0xcc, 0xcc, 0xcc}, {0x00, 0x00, 0x00, 0x00},
    };
    b += memcmp(b, endbr64, 4) ? 0 : 4;
    if (*b++ != 0xc3)
        return 0;
    for (size_t i = 0; i < sizeof nops / sizeof *nops; i++)
        if (!memcmp(b, nops[i], i == 2 ? 3 : 4))
            return 1;
    return 0;
}

static void report_hook(struct report *r, const struct elf_file *f)
{
    const struct elf_symbol *s = find_function(f, "_dl_debug_state");
    uint8_t b[12];
    char hex[3 * sizeof b + 1] = "";

    if (!s || elf_read(f, s->address, b, sizeof b)) {
        report_finding(r, "_dl_debug_state", FINDING_PROBLEM, NULL,
                       "not exported: programs run untransformed");
        return;
    }
    for (size_t i = 0; i < sizeof b; i++)
        sprintf(hex + 3 * i, "%02x%s", b[i], i + 1 < sizeof b ? " " : "");
    if (hookable(b))
        report_finding(r, "_dl_debug_state", FINDING_OK, NULL, "can be hooked: %s", hex);
    else
        report_finding(r, "_dl_debug_state", FINDING_PROBLEM, NULL,
                       "%s: no room for a jump; programs run untransformed", hex);
}

/* b8 09 00 00 00  mov $9, %eax;  0f 05  syscall */
static void report_mmap_sites(struct report *r, const struct elf_file *f)
{
    static const uint8_t site[] = {0xb8, 0x09, 0x00, 0x00, 0x00, 0x0f, 0x05};
    unsigned n = 0;

    for (size_t i = 0; i < f->phnum; i++) {
        const Elf64_Phdr *p = &f->phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        const uint8_t *at = f->bytes + p->p_offset, *end = at + p->p_filesz;
        for (; (at = memmem(at, (size_t)(end - at), site, sizeof site)); at += sizeof site)
            n++;
    }
    if (n >= 1 && n <= 3)
        report_finding(r, "mmap sites", FINDING_OK, NULL, "%u: libraries can be placed", n);
    else
        report_finding(r, "mmap sites", FINDING_ABSENT, NULL,
                       "%u found, 1 to 3 expected: libraries stay where the kernel puts them", n);
}

void doctor_host_loader(struct report *r, const char *path)
{
    struct elf_file f;
    char *real = realpath(path, NULL);

    report_heading(r, "Host loader");
    if (elf_file_open(&f, path)) {
        report_finding(r, "file", FINDING_PROBLEM, "--host-loader FILE", "%s: %s", path, f.error);
    } else {
        report_finding(r, "file", FINDING_OK, NULL, "%s%s%s%s", path, real ? " (" : "",
                       real ? real : "", real ? ")" : "");
        report_version(r, &f);
        report_hook(r, &f);
        report_mmap_sites(r, &f);
    }
    free(real);
    elf_file_close(&f);
}

/* An update of glibc changes it. */
void doctor_built_beside(struct report *r, const char *path)
{
    struct program p = {0};

    if (program_open(&p, path))
        return;
    if (p.build_id_size == sizeof known_build_id && !memcmp(p.build_id, known_build_id, sizeof known_build_id))
        report_finding(r, "build", FINDING_OK, NULL, "mvld was built beside it");
    else
        report_finding(r, "build", FINDING_ABSENT, "rebuild mvld",
                       "mvld was built beside another one: each start searches its code, and remembers no cpuid");
    free(p.path);
}

/* ---- configuration ------------------------------------------------------------------ */

/* Reports the files that people write, the compiled one, and whether the loader would trust it. */
static void report_place(struct report *r, const char *name, int users)
{
    const char *remedy = users ? "mvld config --user" : "mvld config", *why;
    struct config_made m;
    struct stat st;
    size_t named;
    int wrong = config_make(&m, users, path_passes()), error;
    char *differs = config_made_differs(&m);

    for (size_t i = 0; i < m.n; i++)
        report_finding(r, "configuration file", FINDING_OK, NULL, "%s", m.sources[i].path);
    error = m.folder ? trusted_path(&rimf_sys_kernel, m.path, geteuid(), &st, &why, &named) : -ENOENT;
    if (wrong)
        report_finding(r, name, m.folder && !m.hidden ? FINDING_PROBLEM : FINDING_ABSENT, NULL, "%s", m.why);
    else if (differs)
        report_finding(r, name, FINDING_PROBLEM, remedy, "%s", differs);
    else if (error == -ENOENT)
        report_finding(r, name, FINDING_ABSENT, NULL, "%s: nothing is configured", m.folder);
    else if (error)
        report_finding(r, name, FINDING_PROBLEM, NULL, "%s: no start believes it, because of %.*s: %s",
                       m.path, (int)named, m.path, why);
    else
        report_finding(r, name, FINDING_OK, NULL, "%s: %zu [app] of %zu files", m.path, m.blocks, m.n);
    free(differs);
    config_made_free(&m);
}

/* Reads them like the loader, for a program that only `*' matches. */
static void report_syntax(struct report *r)
{
    struct rimf_log log = {.sys = &rimf_sys_kernel, .fd = -1};
    struct rimf_heap heap;
    struct config_environment environment;
    struct config config;
    char text[512];
    struct why why = {text, sizeof text};
    struct pipeline_query query = {
        .sys = &rimf_sys_kernel, .log = &log, .envp = environ, .program = "/", .name = "/"};

    rimf_heap_init(&heap, &rimf_sys_kernel);
    config_environment(&query, &environment);
    if (config_read(&query, &environment, &heap, &config, &why) < 0)
        report_finding(r, "syntax", FINDING_PROBLEM,
                       "correct it: until then nothing is transformed", "%s", text);
    else
        report_finding(r, "syntax", FINDING_OK, NULL, "all files can be read");
    rimf_heap_destroy(&heap);
}

/* A pass or option that is not there is no error of the files: other passes may be in another MVLD_PASS_PATH. */
static int report_wrong(void *cookie, const struct configured *c)
{
    if (*c->wrong)
        report_finding(cookie, "configured", FINDING_PROBLEM, "correct it: until then no pass runs", "%s: %s", c->program, c->wrong);
    return 0;
}

void doctor_configuration(struct report *r)
{
    int status = 0;
    const char *switched = getenv("MVLD");

    report_heading(r, "Configuration");
    report_place(r, "system", 0);
    report_place(r, "user", 1);
    report_syntax(r);
    enable_each_configured(report_wrong, r, &status);
    if (switched && !strcmp(switched, "off"))
        report_finding(r, "MVLD", FINDING_ABSENT, "unset MVLD",
                       "MVLD=off: programs run untransformed");
}

/* ---- passes --------------------------------------------------------------------------- */

static void report_pass(void *cookie, const char *file, const struct mvld_pass *pass,
                        const char *why)
{
    const char *name = strrchr(file, '/') + 1;
    if (pass)
        report_finding(cookie, name, FINDING_OK, NULL, "%s", pass->help ? pass->help : file);
    else
        report_finding(cookie, name, FINDING_PROBLEM, NULL, "%s: %s", file, why);
}

void doctor_passes(struct report *r, const char *folders)
{
    report_heading(r, "Passes");
    if (!passes_each(folders, report_pass, r))
        report_finding(r, "passes", FINDING_ABSENT, "install mvld, or --passes FOLDER",
                       "none in %s", folders);
}

/* ---- the compiler ---------------------------------------------------------------------- */

static int first_line_of(const char *command, char *to, size_t size)
{
    FILE *f = popen(command, "r");
    int got = f && fgets(to, (int)size, f) != NULL;
    if (f && pclose(f) != 0)
        got = 0;
    if (got)
        to[strcspn(to, "\n")] = 0;
    return got ? 0 : -1;
}

void doctor_compiler(struct report *r)
{
    char version[64], folder[512];

    report_heading(r, "Compiler");
    if (first_line_of("gcc -dumpfullversion 2>/dev/null", version, sizeof version) ||
        first_line_of("gcc -print-file-name=plugin 2>/dev/null", folder, sizeof folder)) {
        report_finding(r, "gcc", FINDING_ABSENT, "apt-get install gcc", "not found");
        return;
    }
    report_finding(r, "gcc", FINDING_OK, NULL, "version %s", version);
    char *header = must_print("%s/include/gcc-plugin.h", folder);
    char *remedy = must_print("apt-get install gcc-%d-plugin-dev", atoi(version));
    if (access(header, R_OK))
        report_finding(r, "plugin headers", FINDING_ABSENT, remedy, "no %s", header);
    else
        report_finding(r, "plugin headers", FINDING_OK, NULL, "%s/include", folder);
    free(remedy);
    free(header);
}
