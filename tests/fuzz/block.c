/* SPDX-License-Identifier: MIT
 *
 * Any environment and any auxiliary vector: an LD_PRELOAD that comes and goes leaves
 * what the kernel made, and of an environment that is scrubbed nothing is left that
 * steers us, and all else in its order.
 *
 * A line of the input is a variable; a line that begins with '!' is an auxv entry,
 * its second character the type.
 */
#include "loader/process/process.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VARIABLES 64
#define AUXILIARY 32

struct input {
    char *text;
    char *variables[VARIABLES];
    size_t n_variables;
    Elf64_auxv_t auxiliary[AUXILIARY + 1];
    size_t n_auxiliary;
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static void read_input(struct input *in, const uint8_t *data, size_t size)
{
    *in = (struct input){.text = malloc(size + 1)};
    memcpy(in->text, data, size);
    in->text[size] = '\0';
    for (char *line = in->text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (*line == '!' && in->n_auxiliary < AUXILIARY && line[1])
            in->auxiliary[in->n_auxiliary++] =
                (Elf64_auxv_t){(unsigned char)line[1], {(unsigned char)line[2 * !!line[2]]}};
        else if (*line != '!' && in->n_variables < VARIABLES)
            in->variables[in->n_variables++] = line;
    }
}

/* argc 1, one argument, the environment and auxv, with nothing behind it. */
static uintptr_t *make(const struct input *in, uintptr_t **room)
{
    static char argument[] = "program";
    size_t words = BLOCK_MOVES + 1 + 2 + in->n_variables + 1 + 2 * (in->n_auxiliary + 1);
    uintptr_t *w = *room = malloc(words * sizeof *w), *sp;

    sp = w += BLOCK_MOVES;
    *w++ = 1;
    *w++ = (uintptr_t)argument;
    *w++ = 0;
    for (size_t i = 0; i < in->n_variables; i++)
        *w++ = (uintptr_t)in->variables[i];
    *w++ = 0;
    memcpy(w, in->auxiliary, (in->n_auxiliary + 1) * sizeof *in->auxiliary);
    return sp;
}

/* envp and the entries of auxv but those to be ignored, as the input has them. */
static void is_as_made(const struct input *in, char **envp, const Elf64_auxv_t *auxv)
{
    for (size_t i = 0; i < in->n_variables; i++)
        require(envp[i] == in->variables[i]);
    require(!envp[in->n_variables]);
    for (size_t i = 0; i <= in->n_auxiliary; i++)
        require(auxv[i].a_type == in->auxiliary[i].a_type &&
                auxv[i].a_un.a_val == in->auxiliary[i].a_un.a_val);
}

static void comes_and_goes(const struct input *in, int users)
{
    static char ours[] = "LD_PRELOAD=/ours.so";
    struct injection injection = {0};
    struct block block;
    uintptr_t *room, *sp = make(in, &room);
    const Elf64_auxv_t *auxv, *behind;

    block_read(&block, sp);
    auxv = block.auxv;
    require(block.argc == 1 && block.envc == in->n_variables);
    is_as_made(in, block.envp, auxv);
    if (users && in->n_variables) /* as knobs.c would, for any place */
        injection.users = in->variables[in->n_variables / 2];
    block_inject(&block, &injection, ours);
    require(*block.sp == 1 && block.auxv == auxv && !block.envp[block.envc]);
    require(block_restore(&block, &injection) == 1);
    require(!block_restore(&block, &injection));
    is_as_made(in, (char **)(block.sp + 3), auxv);
    /* From envp over its NULL to auxv, as programs go. */
    behind = (const Elf64_auxv_t *)(block.sp + 3 + in->n_variables + 1);
    if (!injection.users)
        require(behind->a_type == AT_IGNORE && behind + 1 == auxv);
    else
        require(behind == auxv);
    free(room);
}

static int steers_us(const char *variable)
{
    return !strncmp(variable, "MVLD=", 5) || !strncmp(variable, "MVLD_", 5);
}

static void scrubs(const struct input *in)
{
    struct input kept = *in;
    struct block block;
    uintptr_t *room, *sp = make(in, &room);

    kept.n_variables = 0;
    for (size_t i = 0; i < in->n_variables; i++)
        if (!steers_us(in->variables[i]))
            kept.variables[kept.n_variables++] = in->variables[i];
    block_read(&block, sp);
    block_scrub(&block, "MVLD");
    require(block.envc == kept.n_variables);
    is_as_made(&kept, block.envp, block.auxv);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in;

    read_input(&in, data, size);
    /* AT_NULL ends auxv: what would stand behind it is no part of it. */
    for (size_t i = 0; i < in.n_auxiliary; i++)
        if (in.auxiliary[i].a_type == AT_NULL)
            in.n_auxiliary = i;
    comes_and_goes(&in, 0);
    comes_and_goes(&in, 1);
    scrubs(&in);
    free(in.text);
    return 0;
}
