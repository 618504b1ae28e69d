/* SPDX-License-Identifier: MIT
 *
 * outcome.c: the outcome of each function in an operation, for the program's queries.
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
