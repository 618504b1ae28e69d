/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/names.c: what debuggers shall find of moved code (analysis/analysis.h, SYMBOLS): the functions
 * that either symbol table of the file names, where they may move.
 */
#include "rimf/analyze/analyser.h"

/* By place and name, so that what both tables say stands side by side. */
static int by_start(const void *a, const void *b)
{
    const struct function *x = a, *y = b;

    return x->start != y->start ? (x->start < y->start ? -1 : 1) : strcmp(x->name, y->name);
}

static void add(struct analyser *a, const struct function *f, uint32_t first)
{
    Elf64_Sym symbol = {
        .st_name = (Elf64_Word)a->names.n,
        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
        .st_shndx = ANALYSIS_SYMBOLS_IN,
        .st_value = f->start - first,
        .st_size = f->size,
    };

    vector_add(&a->symbols, &symbol, sizeof symbol);
    for (const char *c = f->name;; c++) {
        vector_add(&a->names, c, 1);
        if (!*c)
            return;
    }
}

void emit_names(struct analyser *a)
{
    struct function *functions = a->object.functions.at, *last = NULL;
    const struct unit *units = units_of(a);
    size_t n = a->object.functions.n, first = 0;

    while (first < a->units.n && units[first].reason)
        first++;
    if (a->object.flags || first == a->units.n)
        return;
    vector_add(&a->symbols, &(Elf64_Sym){0}, sizeof(Elf64_Sym)); /* the empty ones: a file without */
    vector_add(&a->names, "", 1);                                /* names says where frames are */
    if (n)
        qsort(functions, n, sizeof *functions, by_start);
    for (size_t i = 0; i < n; i++) {
        const struct unit *unit = unit_at(a, functions[i].start);

        if (!unit || unit->reason || !*functions[i].name ||
            (last && by_start(last, &functions[i]) == 0))
            continue;
        last = &functions[i];
        add(a, last, units[first].start);
    }
}
