/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * domains.cc: for which values of its switches a function is specialised.
 *
 *   "values", …    those
 *   enumeration    its enumerators
 *   bool           0 and 1
 *   integer        the constants that the function compares the switch with, in
 *                  any comparison or `switch`, and what lies between when that is
 *                  little; 0 and 1 when there are none or none but these.  An order
 *                  comparison gives the constants on both sides of the border,
 *                  whichever of them was written.
 *
 * Constants are collected twice: right after SSA construction, when `switch`
 * statements still are what was written (early optimisation turns them into
 * tables and bit tests), and again when variants are made, when small functions
 * have been inlined.  The first collection is kept by function; what was inlined
 * is found through the scopes that inlining leaves.
 */
#include "multiverse.h"

typedef std::set<int64_t> constants;

/* Function (DECL_UID) -> switch (DECL_UID) -> constants. */
static std::unordered_map<unsigned, std::unordered_map<unsigned, constants>> hints;

/* ---- reads --------------------------------------------------------------- */

tree mv_switch_of_ref(tree ref)
{
    if (!ref || TREE_THIS_VOLATILE(ref))
        return NULL_TREE;
    if (VAR_P(ref))
        return mv_is_switch(ref) ? ref : NULL_TREE;
    if (TREE_CODE(ref) == VIEW_CONVERT_EXPR)
        return INTEGRAL_TYPE_P(TREE_TYPE(ref)) ? mv_switch_of_ref(TREE_OPERAND(ref, 0)) : NULL_TREE;
    if (TREE_CODE(ref) != MEM_REF || TREE_CODE(TREE_OPERAND(ref, 0)) != ADDR_EXPR ||
        !integer_zerop(TREE_OPERAND(ref, 1)))
        return NULL_TREE;
    tree decl = TREE_OPERAND(TREE_OPERAND(ref, 0), 0);
    if (!VAR_P(decl) || !mv_is_switch(decl) || !INTEGRAL_TYPE_P(TREE_TYPE(ref)) ||
        int_size_in_bytes(TREE_TYPE(ref)) != int_size_in_bytes(TREE_TYPE(decl)))
        return NULL_TREE;
    return decl;
}

static tree relaxed_atomic_load(gimple *stmt)
{
    if (!gimple_call_builtin_p(stmt, BUILT_IN_NORMAL) || !gimple_call_lhs(stmt))
        return NULL_TREE;
    switch (DECL_FUNCTION_CODE(gimple_call_fndecl(stmt))) {
    case BUILT_IN_ATOMIC_LOAD_1:
    case BUILT_IN_ATOMIC_LOAD_2:
    case BUILT_IN_ATOMIC_LOAD_4:
    case BUILT_IN_ATOMIC_LOAD_8:
        break;
    default:
        return NULL_TREE;
    }
    tree address = gimple_call_arg(stmt, 0), order = gimple_call_arg(stmt, 1);
    if (TREE_CODE(address) != ADDR_EXPR || !integer_zerop(order))
        return NULL_TREE;
    tree decl = TREE_OPERAND(address, 0), type = TREE_TYPE(gimple_call_lhs(stmt));
    if (!mv_is_switch(decl) || !INTEGRAL_TYPE_P(type) ||
        int_size_in_bytes(type) != int_size_in_bytes(TREE_TYPE(decl)))
        return NULL_TREE;
    return decl;
}

tree mv_load_of_switch(gimple *stmt)
{
    if (gimple_assign_single_p(stmt) && TREE_CODE(gimple_assign_lhs(stmt)) == SSA_NAME)
        return mv_switch_of_ref(gimple_assign_rhs1(stmt));
    if (is_gimple_call(stmt))
        return relaxed_atomic_load(stmt);
    return NULL_TREE;
}

/* ---- constants ------------------------------------------------------------ */

/* Values of which a piece has more than these are not all looked at. */
static const unsigned few = 16;

/* The values that one answer singles out: both sides of a border that stands alone, else what lies
 * between borders; all of it when it is little, or its ends. */
static void add_values(const mv_question &q, const mv_pieces &answer, constants &out)
{
    mv_piece all = mv_all_values(TREE_TYPE(q.sw));
    mv_pieces parts;
    mv_wide next = all.low;
    for (const mv_piece &p : answer) {
        if (next < p.low)
            parts.push_back({next, p.low - 1});
        parts.push_back(p);
        next = p.high + 1;
    }
    if (next <= all.high)
        parts.push_back({next, all.high});
    bool border = parts.size() == 2;
    for (const mv_piece &p : parts) {
        if (!border && (p.low == all.low || p.high == all.high))
            continue;
        for (mv_wide v = p.low; p.high - p.low < few && v <= p.high; v++)
            out.insert((int64_t)v);
        if (p.low != all.low)
            out.insert((int64_t)p.low);
        if (p.high != all.high)
            out.insert((int64_t)p.high);
    }
}

/* `orders`: questions of more than one value, too. */
static void collect(function *fun, std::unordered_map<unsigned, constants> &out, bool orders)
{
    for (const mv_question &q : mv_questions(fun))
        for (const mv_pieces &answer : q.answers) {
            constants values;
            add_values(q, answer, values);
            if (orders || values.size() == 1)
                out[DECL_UID(q.sw)].insert(values.begin(), values.end());
        }
}

void mv_collect_hints(function *fun)
{
    std::unordered_map<unsigned, constants> found;
    collect(fun, found, true);
    if (!found.empty())
        hints[DECL_UID(fun->decl)] = found;
}

static void add_inlined(tree block, unsigned sw, constants &out)
{
    for (; block; block = BLOCK_CHAIN(block)) {
        tree origin = BLOCK_ABSTRACT_ORIGIN(block);
        while (origin && TREE_CODE(origin) == BLOCK && BLOCK_ABSTRACT_ORIGIN(origin) &&
               BLOCK_ABSTRACT_ORIGIN(origin) != origin)
            origin = BLOCK_ABSTRACT_ORIGIN(origin);
        if (origin && TREE_CODE(origin) == FUNCTION_DECL) {
            auto fn = hints.find(DECL_UID(origin));
            if (fn != hints.end() && fn->second.count(sw))
                out.insert(fn->second[sw].begin(), fn->second[sw].end());
        }
        add_inlined(BLOCK_SUBBLOCKS(block), sw, out);
    }
}

static mv_value numbered(int64_t value, bool is_signed)
{
    bool minus = is_signed && value < 0;
    uint64_t digits = minus ? 0 - (uint64_t)value : (uint64_t)value;
    return {value, (minus ? "m" : "") + std::to_string(digits)};
}

std::vector<mv_value> mv_domain(tree sw, function *fun)
{
    std::vector<mv_value> out;
    for (int64_t v : mv_values(sw))
        out.push_back(numbered(v, mv_is_signed(sw)));
    if (!out.empty())
        return out;

    if (tree a = lookup_attribute(MV_ATTR_DOMAIN, DECL_ATTRIBUTES(sw))) {
        for (tree e = TREE_VALUE(a); e; e = TREE_CHAIN(e)) {
            int64_t v = wi::to_wide(TREE_VALUE(e)).to_shwi();
            if (std::none_of(out.begin(), out.end(), [v](mv_value &o) { return o.value == v; }))
                out.push_back({v, TREE_STRING_POINTER(TREE_PURPOSE(e))});
        }
        return out;
    }
    constants found;
    if (TREE_CODE(TREE_TYPE(sw)) != BOOLEAN_TYPE) {
        auto early = hints.find(DECL_UID(fun->decl));
        if (early != hints.end() && early->second.count(DECL_UID(sw)))
            found = early->second[DECL_UID(sw)];
        if (tree outer = DECL_INITIAL(fun->decl))
            add_inlined(BLOCK_SUBBLOCKS(outer), DECL_UID(sw), found);
        /* The border of a table that a `switch` became is no value of the author. */
        std::unordered_map<unsigned, constants> now;
        collect(fun, now, found.empty());
        found.insert(now[DECL_UID(sw)].begin(), now[DECL_UID(sw)].end());
    }
    if (found.empty() || (*found.begin() >= 0 && *found.rbegin() <= 1))
        found = {0, 1};
    for (int64_t v : found)
        out.push_back(numbered(v, mv_is_signed(sw)));
    return out;
}
