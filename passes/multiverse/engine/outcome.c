/* SPDX-License-Identifier: MIT
 *
 * outcome.c: the outcome of each function in an operation, for the program's queries; and the engine's sentences.
 *
 *     decided         written                         finished
 *     unchanged ────► changed                    ───► of the stubs of one pointer, the worst
 *     generic         (changed, with an error:        counted in the reply
 *     refused          some of its sites)             generic and refused: to be reported
 */
#include "passes/multiverse/engine/engine.h"

void mv_outcome_begin(struct mv_point *point, int reached)
{
    if (!reached && point->outcome != MULTIVERSE_REFUSED)
        return;
    point->reached = (uint8_t)reached;
    point->outcome = MULTIVERSE_UNCHANGED;
    point->error = 0;
}

void mv_outcome(struct mv_point *point, enum multiverse_outcome outcome, int error)
{
    if (error && (outcome >= MULTIVERSE_GENERIC || point->outcome < MULTIVERSE_GENERIC))
        point->error = error;
    if (outcome > (enum multiverse_outcome)point->outcome)
        point->outcome = (uint8_t)outcome;
}

int mv_is_first(const struct mv_engine *engine, const struct mv_point *point)
{
    return !point->is_inline && (!point->variable || point->orphaned ||
                                 mv_table_get(&engine->points, point->variable) == point);
}

static void finish(struct mv_engine *engine, struct mv_point *point)
{
    struct multiverse_status none = {0}, *status = engine->reply ? &engine->reply->status : &none;

    for (struct mv_point *p = point->peer; p; p = p->peer)
        if (!p->unit->closing)
            mv_outcome(point, p->outcome, p->error);
    point->missed = point->outcome >= MULTIVERSE_GENERIC ? engine->operation : 0;
    status->n_unchanged += point->outcome == MULTIVERSE_UNCHANGED;
    status->n_changed += point->outcome == MULTIVERSE_CHANGED;
    status->n_generic += point->outcome == MULTIVERSE_GENERIC;
    status->n_refused += point->outcome == MULTIVERSE_REFUSED;
}

/* An inline call that could not be changed calls its function, and is reported like the function's
 * sites. */
static void report_functions(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *point = &u->points[i], *function = NULL;

            if (point->reached && point->error)
                function = mv_function_of(engine, point);
            if (function)
                mv_outcome(function, MULTIVERSE_UNCHANGED, point->error);
        }
}

void mv_outcomes_finish(struct mv_engine *engine)
{
    report_functions(engine);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *point = &u->points[i];

            if (point->reached && mv_is_first(engine, point))
                finish(engine, point);
            point->reached = 0;
            if (engine->reply)
                engine->reply->missed |= point->missed != 0;
        }
}

const char *mv_why(int error)
{
    switch (error) {
    case ENOENT:
        return "no variant fits";
    case EINVAL:
        return "the function pointer is NULL";
    case ENOTSUP:
        return "some reads of the constant stay loads";
    case ERANGE:
        return "what it should lead to is out of reach";
    case ESTALE:
        return "its bytes are not those that were written by the linker or by us";
    case EFAULT:
        return "it is not in executable memory of an object";
    case EEXIST:
        return "it overlaps another change";
    case EDEADLK:
        return "it cannot be changed safely while other threads run";
    case EPERM: case EACCES:
        return "this process may not change its code";
    }
    return "the system refused";
}

/* ---- errors, reports, refusals */

static void add_line(char *text, size_t size, size_t *used, size_t *lost, const char *line)
{
    size_t length = rimf_strlen(line);

    if (length + 2 > size - *used) {
        ++*lost;
        return;
    }
    memcpy(text + *used, line, length);
    *used += length;
    text[(*used)++] = '\n';
    text[*used] = 0;
}

int mv_fail(struct mv_engine *engine, int err, const char *format, ...)
{
    char text[sizeof engine->reply->error];
    va_list args;

    va_start(args, format);
    rimf_vformat(text, sizeof text, format, args);
    va_end(args);
    if (engine->reply)
        memcpy(engine->reply->error, text, sizeof text);
    return engine->api->fail(engine->image, err, "%s", text);
}

static void report_line(struct mv_engine *engine, const char *line)
{
    struct mv_reply *reply = engine->reply;

    if (reply)
        add_line(reply->report, sizeof reply->report, &reply->used, &reply->lost, line);
    engine->api->log(engine->image, MVLD_LOG_PASSES, "multiverse: %s", line);
}

void mv_report(struct mv_engine *engine, const char *format, ...)
{
    char text[512];
    va_list args;

    if (!engine->reply && !engine->api->log_enabled(engine->image, MVLD_LOG_PASSES))
        return;
    va_start(args, format);
    rimf_vformat(text, sizeof text, format, args);
    va_end(args);
    report_line(engine, text);
}

void mv_refuse(struct mv_engine *engine, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    rimf_vformat(text, sizeof text, format, args);
    va_end(args);
    engine->api->fail(engine->image, ENOEXEC, "%s", text);
    engine->api->log(engine->image, MVLD_LOG_PASSES, "multiverse: %s", text);
    add_line(engine->refusals, sizeof engine->refusals, &engine->refusals_used,
             &engine->n_refusals_lost, text);
}

void mv_forget_refusals(struct mv_engine *engine, const char *object)
{
    size_t length = rimf_strlen(object), kept = 0, next;

    for (size_t at = 0; at < engine->refusals_used; at = next) {
        const char *line = engine->refusals + at;

        for (next = at; engine->refusals[next++] != '\n';)
            ;
        if (!rimf_strncmp(line, object, length) && line[length] == ':' && line[length + 1] == ' ')
            continue;
        memmove(engine->refusals + kept, line, next - at);
        kept += next - at;
    }
    engine->refusals[engine->refusals_used = kept] = 0;
}

/* ---- one line for people */

static void describe_switch(const struct mv_item *item, char *text, size_t size)
{
    const struct multiverse_info_var *var = item->var;
    char value[24];

    if (var->is_signed)
        rimf_format(value, sizeof value, "%ld", (long)item->value);
    else
        rimf_format(value, sizeof value, "%lu", (unsigned long)item->value);
    rimf_format(text, size, "switch %s at %p: %u bytes, value %s, %zu functions%s", var->name, var->location,
                var->width, value, var->n_functions, var->is_bound ? "" : ", unbound");
}

static void describe_function(const struct multiverse_info_fn *fn, char *text, size_t size)
{
    if (fn->is_constant)
        rimf_format(text, size, "constant %s at %p: %zu reads, %s", fn->name, fn->function, fn->n_callsites,
                    fn->active ? "in the code" : "loaded");
    else
        rimf_format(text, size, "function %s%s at %p: %zu variants, %zu call sites, %s %s", fn->name,
                    fn->is_pointer ? " (pointer)" : "", fn->function, fn->n_variants, fn->n_callsites,
                    fn->active ? "bound to" : "not bound",
                    fn->active_name ? fn->active_name : fn->active ? "a function" : "");
}

void mv_describe(const struct mv_item *item, char *text, size_t size)
{
    if (item->var)
        describe_switch(item, text, size);
    else
        describe_function(item->fn, text, size);
}
