/* SPDX-License-Identifier: MIT
 *
 * sentences.c: the engine's sentences: errors, reports, refusals.
 */
#include "passes/multiverse/engine/engine.h"

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
