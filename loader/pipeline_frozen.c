/* SPDX-License-Identifier: MIT
 *
 * loader/pipeline_frozen.c: the part of a plan whose work a frozen image holds.
 *
 * That is its first passes, as long as each says that its work is patches alone
 * (MVLD_PASS_FREEZES).  Later ones run in each process, over the thawed code.
 */
#include "base.h"
#include "pipeline_private.h"

size_t pipeline_freezable(const struct pipeline *p)
{
    size_t n = 0;

    while (n < p->n && (p->passes[n].pass->flags & MVLD_PASS_FREEZES))
        n++;
    return n;
}

static uint64_t more(uint64_t so_far, const char *text)
{
    uint64_t pair[2] = {so_far, text ? sidecar_hash(text, rimf_strlen(text)) : 0};

    return sidecar_hash(pair, sizeof pair);
}

/* The files of these passes and what they are told; where that was said is no matter.  And
 * who comes behind them, when one of them looks. */
uint64_t pipeline_fingerprint(const struct pipeline *p, size_t n)
{
    uint64_t hash = n;
    int ahead = 0;

    for (size_t i = 0; i < n; i++) {
        const struct planned_pass *it = &p->passes[i];

        hash = more(hash, it->pass->name) ^ sidecar_hash(&it->object.identity,
                                                         sizeof it->object.identity);
        for (size_t k = 0; k < it->n_settings; k++)
            hash = more(more(hash, it->settings[k].name), it->settings[k].text);
        ahead |= (it->pass->flags & MVLD_PASS_LOOKS_AHEAD) != 0;
    }
    for (size_t i = n; ahead && i < p->n; i++)
        hash = more(hash, p->passes[i].pass->name);
    return hash;
}

void pipeline_thawed(struct pipeline *p, struct mvld_image *image, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pipeline_set_context(p, &p->passes[i], image);
        p->passes[i].status = PASS_RAN;
        rimf_log(&p->log, MVLD_LOG_PASSES, "pass %s: its work was thawed", p->passes[i].pass->name);
    }
}

void pipeline_leave(struct pipeline *p, size_t n, const char *why)
{
    for (size_t i = 0; i < n; i++) {
        p->passes[i].status = PASS_SKIPPED;
        rimf_log(&p->log, MVLD_LOG_PASSES, "pass %s: skipped: %s", p->passes[i].pass->name, why);
    }
}
