/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * domains.cc: for which values of its switches a function is specialised.
 *
 *   ("values", …)  those
 *   enumeration    its enumerators
 *   bool           0 and 1
 *   integer        the constants that the function compares the switch with, in
 *                  any comparison or `switch`; 0 and 1 when there are none or
 *                  none but these.  An order comparison gives the constants on
 *                  both sides of the border, whichever of them was written.
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

/* Follows the value of a switch through casts, added constants and masks to the
 * places where it is compared. */
struct follower {
    tree sw;
    constants &found;
    bool orders; /* order comparisons count, too */
    std::set<tree> seen;

    /* The code asks whether the switch is v, computed as if integers had no end. */
    void add_exact(const wide_int &v)
    {
        tree type = TREE_TYPE(sw);
        unsigned precision = TYPE_PRECISION(type);
        signop sign = TYPE_SIGN(type);
        wide_int cut = wide_int::from(wide_int::from(v, precision, sign), 128, sign);
        /* An unsigned switch compared in a signed type may look negative. */
        if (cut == v || (sign == UNSIGNED && wi::neg_p(v) &&
                         wi::eq_p(wide_int::from(v, precision, UNSIGNED),
                                  wide_int::from(cut, precision, UNSIGNED))))
            found.insert(cut.to_shwi());
    }

    static wide_int wide(tree constant)
    {
        return wide_int::from(wi::to_wide(constant), 128, TYPE_SIGN(TREE_TYPE(constant)));
    }

    void compared(tree_code code, tree constant, const wide_int &added)
    {
        if (TREE_CODE(constant) != INTEGER_CST)
            return;
        if (!orders && code != EQ_EXPR && code != NE_EXPR)
            return;
        wide_int c = wi::sub(wide(constant), added);
        add_exact(c);
        if (code == LT_EXPR || code == GE_EXPR)
            add_exact(wi::sub(c, 1));
        else if (code == GT_EXPR || code == LE_EXPR)
            add_exact(wi::add(c, 1));
        /* (unsigned) x - 3 <= 2 is what a range test became: its start too. */
        if ((code == LE_EXPR || code == GT_EXPR || code == LT_EXPR || code == GE_EXPR) &&
            wi::ne_p(added, 0)) {
            add_exact(wi::neg(added));
            add_exact(wi::sub(wi::neg(added), 1));
        }
    }

    void labels(gswitch *stmt, const wide_int &added)
    {
        for (unsigned i = 1; i < gimple_switch_num_labels(stmt); i++) {
            tree label = gimple_switch_label(stmt, i);
            wide_int low = wide(CASE_LOW(label));
            wide_int high = CASE_HIGH(label) ? wide(CASE_HIGH(label)) : low;
            for (unsigned n = 0; n < 16 && wi::les_p(low, high); n++, low = wi::add(low, 1))
                add_exact(wi::sub(low, added));
            add_exact(wi::sub(high, added));
        }
    }

    void follow(tree name, wide_int added, unsigned depth)
    {
        if (depth > 12 || TREE_CODE(name) != SSA_NAME || !seen.insert(name).second)
            return;
        imm_use_iterator it;
        use_operand_p use;
        FOR_EACH_IMM_USE_FAST(use, it, name)
            statement(USE_STMT(use), name, added, depth);
    }

    void assignment(gassign *stmt, tree name, const wide_int &added, unsigned depth)
    {
        tree_code code = gimple_assign_rhs_code(stmt);
        tree lhs = gimple_assign_lhs(stmt), second = gimple_assign_rhs2(stmt);
        if (gimple_assign_rhs1(stmt) != name)
            return;
        if (TREE_CODE_CLASS(code) == tcc_comparison)
            compared(code, second, added);
        else if (CONVERT_EXPR_CODE_P(code) || code == SSA_NAME)
            follow(lhs, added, depth + 1);
        else if (code == PLUS_EXPR && TREE_CODE(second) == INTEGER_CST)
            follow(lhs, wi::add(added, wide_int::from(wi::to_wide(second), 128, SIGNED)),
                   depth + 1);
        else if (code == BIT_AND_EXPR && TREE_CODE(second) == INTEGER_CST) {
            add_exact(wide(second)); /* all bits, none, and what they are compared with */
            add_exact(wi::zero(128));
            follow(lhs, added, depth + 1);
        }
    }

    void statement(gimple *stmt, tree name, const wide_int &added, unsigned depth)
    {
        if (gcond *cond = dyn_cast<gcond *>(stmt)) {
            if (gimple_cond_lhs(cond) == name)
                compared(gimple_cond_code(cond), gimple_cond_rhs(cond), added);
        } else if (gswitch *sw_stmt = dyn_cast<gswitch *>(stmt)) {
            labels(sw_stmt, added);
        } else if (gassign *assign = dyn_cast<gassign *>(stmt)) {
            assignment(assign, name, added, depth);
        } else if (gphi *phi = dyn_cast<gphi *>(stmt)) {
            follow(gimple_phi_result(phi), added, depth + 1);
        }
    }
};

static void collect(function *fun, std::unordered_map<unsigned, constants> &out, bool orders)
{
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            gimple *stmt = gsi_stmt(gsi);
            tree sw = mv_load_of_switch(stmt);
            if (!sw)
                continue;
            follower f{sw, out[DECL_UID(sw)], orders, {}};
            f.follow(gimple_get_lhs(stmt), wi::zero(128), 0);
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
