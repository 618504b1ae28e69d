/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * domains.cc: the values of its switches that a function is specialised for.
 *
 *   "values", …    those
 *   enumeration    its enumerators
 *   bool           0 and 1
 *   integer        all values: the constants that the function compares the switch with,
 *                  in comparisons or `switch`, divide its type into ranges in which every
 *                  comparison has one result.  If the value is also used otherwise, a range of
 *                  few values is divided into these, and 0 and 1 are added if no other constant
 *                  is compared.
 *
 * Constants are collected twice: right after SSA construction, when `switch` statements are still
 * as written (early optimisation turns them into tables and bit tests); and again when variants are
 * made, when small functions have been inlined.  The first collection is stored by function; an
 * inlined function is found through the scopes that inlining leaves.
 */
#include "multiverse.h"

/* Sets of values for which all comparisons of a function have the same result. */
typedef std::vector<mv_piece> answers;

/* Function (DECL_UID) -> switch (DECL_UID) -> answers. */
static std::unordered_map<unsigned, std::unordered_map<unsigned, answers>> hints;

/* ---- constants ------------------------------------------------------------ */

/* The switches whose value fun uses for more than comparisons. */
static std::set<tree> collect(function *fun, std::unordered_map<unsigned, answers> &out)
{
    std::set<tree> otherwise;
    for (const mv_question &q : mv_questions(fun, otherwise))
        for (const mv_pieces &answer : q.answers)
            out[DECL_UID(q.sw)].insert(out[DECL_UID(q.sw)].end(), answer.begin(), answer.end());
    return otherwise;
}

void mv_collect_hints(function *fun)
{
    std::unordered_map<unsigned, answers> found;
    collect(fun, found);
    if (!found.empty())
        hints[DECL_UID(fun->decl)] = found;
}

static void add_inlined(tree block, unsigned sw, answers &out)
{
    for (; block; block = BLOCK_CHAIN(block)) {
        tree origin = BLOCK_ABSTRACT_ORIGIN(block);
        while (origin && TREE_CODE(origin) == BLOCK && BLOCK_ABSTRACT_ORIGIN(origin) &&
               BLOCK_ABSTRACT_ORIGIN(origin) != origin)
            origin = BLOCK_ABSTRACT_ORIGIN(origin);
        if (origin && TREE_CODE(origin) == FUNCTION_DECL) {
            auto fn = hints.find(DECL_UID(origin));
            if (fn != hints.end() && fn->second.count(sw))
                out.insert(out.end(), fn->second[sw].begin(), fn->second[sw].end());
        }
        add_inlined(BLOCK_SUBBLOCKS(block), sw, out);
    }
}

static std::string digits(mv_wide value)
{
    return (value < 0 ? "m" : "") + std::to_string((uint64_t)(value < 0 ? -value : value));
}

static mv_value value_of(mv_piece piece, const mv_piece &all)
{
    std::string label = digits(piece.low);
    if (piece.low != piece.high)
        label = (piece.low == all.low ? "min" : label) + "_to_" +
                (piece.high == all.high ? "max" : digits(piece.high));
    return {piece, piece, label};
}

static mv_value value_of(int64_t v, tree sw)
{
    mv_wide value = mv_is_signed(sw) ? (mv_wide)v : (mv_wide)(uint64_t)v;
    return value_of({value, value}, {0, -1});
}

/* The beginnings of the pieces, without the first, into which the answers divide the type. */
static std::set<mv_wide> borders(const answers &found, bool otherwise, const mv_piece &all)
{
    static const unsigned few = 16;
    std::set<mv_wide> out;
    bool is_plain = true; /* only 0 and 1 are compared */
    for (const mv_piece &p : found) {
        for (mv_wide v = p.low; otherwise && p.high - p.low < few && v <= p.high; v++)
            out.insert(v);
        out.insert(p.low);
        out.insert(p.high + 1);
    }
    auto outside = [&](mv_wide v) { return v <= all.low || v > all.high; };
    for (mv_wide v : out)
        is_plain &= outside(v) || (v >= 0 && v <= 2);
    if (otherwise && is_plain)
        out.insert({0, 1, 2});
    for (auto it = out.begin(); it != out.end();)
        it = outside(*it) ? out.erase(it) : std::next(it);
    return out;
}

std::vector<mv_value> mv_domain(tree sw, function *fun)
{
    std::vector<mv_value> out;
    for (int64_t v : mv_values(sw))
        out.push_back(value_of(v, sw));
    if (!out.empty())
        return out;

    if (tree a = lookup_attribute(MV_ATTR_DOMAIN, DECL_ATTRIBUTES(sw))) {
        for (tree e = TREE_VALUE(a); e; e = TREE_CHAIN(e)) {
            mv_value v = value_of(wi::to_wide(TREE_VALUE(e)).to_shwi(), sw);
            v.label = TREE_STRING_POINTER(TREE_PURPOSE(e));
            if (std::none_of(out.begin(), out.end(),
                             [&](mv_value &o) { return o.piece.low == v.piece.low; }))
                out.push_back(v);
        }
        return out;
    }
    answers found;
    auto early = hints.find(DECL_UID(fun->decl));
    if (early != hints.end() && early->second.count(DECL_UID(sw)))
        found = early->second[DECL_UID(sw)];
    if (tree outer = DECL_INITIAL(fun->decl))
        add_inlined(BLOCK_SUBBLOCKS(outer), DECL_UID(sw), found);
    std::unordered_map<unsigned, answers> now;
    bool otherwise = collect(fun, now).count(sw);
    found.insert(found.end(), now[DECL_UID(sw)].begin(), now[DECL_UID(sw)].end());

    mv_piece all = mv_all_values(TREE_TYPE(sw));
    mv_wide low = all.low;
    for (mv_wide border : borders(found, otherwise, all)) {
        out.push_back(value_of({low, border - 1}, all));
        low = border;
    }
    out.push_back(value_of({low, all.high}, all));
    return out;
}
