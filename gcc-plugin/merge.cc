/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * merge.cc: fewer records for variants that share a body.
 *
 * A variant's guards are a box in the space of its switches.  Two boxes of the same body that are
 * equal in all dimensions but one, and touch in that one, are joined.  The body for each point of
 * the space does not change.
 */
#include "multiverse.h"

static bool same(const mv_range &a, const mv_range &b)
{
    return a.any == b.any && (a.any || (a.low == b.low && a.high == b.high));
}

/* a ends right before b begins, as the switch's type counts. */
static bool touches(const mv_range &a, const mv_range &b, bool is_signed)
{
    if (a.any || b.any)
        return false;
    int64_t last = is_signed ? INT64_MAX : -1; /* UINT64_MAX */
    return a.high != last && (int64_t)((uint64_t)a.high + 1) == b.low;
}

static bool join(mv_variant &a, const mv_variant &b, const std::vector<tree> &switches)
{
    size_t differing = 0, at = 0;
    for (size_t i = 0; i < switches.size(); i++)
        if (!same(a.ranges[i], b.ranges[i])) {
            differing++;
            at = i;
        }
    if (differing != 1)
        return false;
    bool is_signed = mv_is_signed(switches[at]);
    mv_range &x = a.ranges[at];
    const mv_range &y = b.ranges[at];
    if (touches(x, y, is_signed))
        x.high = y.high;
    else if (touches(y, x, is_signed))
        x.low = y.low;
    else
        return false;
    return true;
}

void mv_merge_guards(std::vector<mv_variant> &variants, const std::vector<tree> &switches)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < variants.size(); i++)
            for (size_t k = i + 1; k < variants.size();) {
                if (variants[i].node == variants[k].node &&
                    join(variants[i], variants[k], switches)) {
                    variants.erase(variants.begin() + k);
                    changed = true;
                } else {
                    k++;
                }
            }
    }
}
