/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * questions.cc: finds the comparisons of a switch in a function ("questions").
 *
 * A question is a comparison of the switch with a constant, or a `switch` over it.  Its answers are
 * sets of the switch's values.  The value is followed from its load through casts, added constants
 * and masks to the comparison, and the compared constants are mapped back: the front end's form of
 * `s == 3 || s == 4`, `(unsigned) s - 3 <= 1`, has the answer {3, 4} again.
 *
 * Comparisons by sanitizers are ignored.
 */
#include "multiverse.h"

namespace {

struct follower {
    tree sw;
    const std::set<gimple *> &checks;
    std::vector<mv_question> &out;
    std::set<tree> &otherwise;
    std::set<tree> seen;
    std::vector<mv_step> way;
    bool masked = false; /* then an answer is only an example */

    void ask(gimple *stmt, std::vector<mv_pieces> answers);
    void compared(gimple *stmt, tree_code code, tree constant);
    void labels(gswitch *stmt);
    void follow(tree name, unsigned depth);
    void assignment(gassign *stmt, tree name, unsigned depth);
    void statement(gimple *stmt, tree name, unsigned depth);
};

} // namespace

/* ---- sets of values ----------------------------------------------------------- */

mv_piece mv_all_values(const_tree type)
{
    unsigned bits = TYPE_PRECISION(type);
    if (TYPE_UNSIGNED(type))
        return {0, ((mv_wide)1 << bits) - 1};
    return {-((mv_wide)1 << (bits - 1)), ((mv_wide)1 << (bits - 1)) - 1};
}

static mv_wide constant_value(tree constant)
{
    return TYPE_UNSIGNED(TREE_TYPE(constant)) ? (mv_wide)wi::to_wide(constant).to_uhwi()
                                              : (mv_wide)wi::to_wide(constant).to_shwi();
}

static bool is_followed(const_tree type)
{
    return INTEGRAL_TYPE_P(type) && TYPE_PRECISION(type) <= 64;
}

/* The values of `from` that are in `pieces` after `s`. */
static mv_pieces before(const mv_step &s, const_tree from, const mv_pieces &pieces)
{
    mv_piece all = mv_all_values(from);
    mv_wide round = (mv_wide)1 << TYPE_PRECISION(s.type);
    mv_pieces out;
    int rounds = TYPE_PRECISION(from) > TYPE_PRECISION(s.type) ? 4 : 1;
    for (int k = -rounds; k <= rounds; k++)
        for (const mv_piece &p : pieces) {
            mv_wide low = std::max(all.low, p.low - s.added + k * round);
            mv_wide high = std::min(all.high, p.high - s.added + k * round);
            if (low <= high)
                out.push_back({low, high});
        }
    return out;
}

static mv_pieces answer(tree_code code, mv_wide c, const_tree type)
{
    mv_piece all = mv_all_values(type);
    mv_pieces out;
    auto add = [&](mv_wide low, mv_wide high) {
        low = std::max(low, all.low), high = std::min(high, all.high);
        if (low <= high)
            out.push_back({low, high});
    };
    if (code == LT_EXPR || code == LE_EXPR || code == NE_EXPR)
        add(all.low, code == LE_EXPR ? c : c - 1);
    if (code == EQ_EXPR)
        add(c, c);
    if (code == GT_EXPR || code == GE_EXPR || code == NE_EXPR)
        add(code == GE_EXPR ? c : c + 1, all.high);
    return out;
}

/* ---- the way of a value --------------------------------------------------------- */

void follower::ask(gimple *stmt, std::vector<mv_pieces> answers)
{
    for (mv_pieces &pieces : answers) {
        for (size_t i = way.size(); i-- > 0;)
            pieces = before(way[i], i ? way[i - 1].type : TREE_TYPE(sw), pieces);
        std::sort(pieces.begin(), pieces.end(),
                  [](const mv_piece &a, const mv_piece &b) { return a.low < b.low; });
        /* The two ends of a cyclic type are one piece in another type. */
        for (size_t i = 1; i < pieces.size();)
            if (pieces[i - 1].high + 1 >= pieces[i].low) {
                pieces[i - 1].high = std::max(pieces[i - 1].high, pieces[i].high);
                pieces.erase(pieces.begin() + i);
            } else {
                i++;
            }
    }
    out.push_back({sw, stmt, answers, way, masked});
}

void follower::compared(gimple *stmt, tree_code code, tree constant)
{
    if (TREE_CODE(constant) != INTEGER_CST)
        otherwise.insert(sw);
    else
        ask(stmt, {answer(code, constant_value(constant), TREE_TYPE(constant))});
}

void follower::labels(gswitch *stmt)
{
    std::vector<mv_pieces> answers;
    for (unsigned i = 1; i < gimple_switch_num_labels(stmt); i++) {
        tree label = gimple_switch_label(stmt, i);
        mv_wide low = constant_value(CASE_LOW(label));
        answers.push_back({{low, CASE_HIGH(label) ? constant_value(CASE_HIGH(label)) : low}});
    }
    ask(stmt, answers);
}

void follower::follow(tree name, unsigned depth)
{
    if (depth > 12)
        otherwise.insert(sw);
    if (depth > 12 || !seen.insert(name).second)
        return;
    imm_use_iterator it;
    use_operand_p use;
    FOR_EACH_IMM_USE_FAST(use, it, name)
        statement(USE_STMT(use), name, depth);
}

void follower::assignment(gassign *stmt, tree name, unsigned depth)
{
    tree_code code = gimple_assign_rhs_code(stmt);
    tree lhs = gimple_assign_lhs(stmt), second = gimple_assign_rhs2(stmt);
    tree type = TREE_TYPE(lhs);
    bool is_first = gimple_assign_rhs1(stmt) == name && TREE_CODE(lhs) == SSA_NAME;
    bool constant = second && TREE_CODE(second) == INTEGER_CST;
    if (is_first && TREE_CODE_CLASS(code) == tcc_comparison) {
        compared(stmt, code, second);
        return;
    }
    if (!is_first || !is_followed(type)) {
        otherwise.insert(sw);
        return;
    }
    if (CONVERT_EXPR_CODE_P(code)) {
        /* The bits that are cut off may have any value. */
        if (TYPE_PRECISION(type) + 2 < TYPE_PRECISION(TREE_TYPE(name))) {
            otherwise.insert(sw);
            return;
        }
        way.push_back({type, 0});
    } else if ((code == PLUS_EXPR || code == MINUS_EXPR) && constant) {
        mv_wide c = constant_value(second);
        way.push_back({type, code == PLUS_EXPR ? c : -c});
    } else if (code == BIT_AND_EXPR && constant) {
        bool before = masked;
        masked = true; /* all bits, none, and the compared ones */
        otherwise.insert(sw);
        ask(stmt, {{{0, 0}}, answer(EQ_EXPR, constant_value(second), type)});
        follow(lhs, depth + 1);
        masked = before;
        return;
    } else {
        if (code == SSA_NAME)
            follow(lhs, depth + 1);
        else
            otherwise.insert(sw);
        return;
    }
    follow(lhs, depth + 1);
    way.pop_back();
}

void follower::statement(gimple *stmt, tree name, unsigned depth)
{
    if (is_gimple_debug(stmt))
        return;
    if (checks.count(stmt)) {
        otherwise.insert(sw);
    } else if (gcond *cond = dyn_cast<gcond *>(stmt)) {
        if (gimple_cond_lhs(cond) == name)
            compared(cond, gimple_cond_code(cond), gimple_cond_rhs(cond));
        else
            otherwise.insert(sw);
    } else if (gswitch *sw_stmt = dyn_cast<gswitch *>(stmt)) {
        labels(sw_stmt);
    } else if (gassign *assign = dyn_cast<gassign *>(stmt)) {
        assignment(assign, name, depth);
    } else if (gphi *phi = dyn_cast<gphi *>(stmt)) {
        bool before = masked;
        masked = true; /* another value may give this one, too */
        otherwise.insert(sw);
        follow(gimple_phi_result(phi), depth + 1);
        masked = before;
    } else {
        otherwise.insert(sw);
    }
}

mv_wide mv_compared_value(const mv_question &q, mv_wide value)
{
    for (const mv_step &s : q.way) {
        mv_piece all = mv_all_values(s.type);
        mv_wide round = all.high - all.low + 1;
        value = (value + s.added - all.low) % round;
        value = (value < 0 ? value + round : value) + all.low;
    }
    return value;
}

/* ---- sanitizers -------------------------------------------------------------------- */

static void add_definitions(tree name, std::set<gimple *> &out)
{
    gassign *stmt = TREE_CODE(name) == SSA_NAME ? dyn_cast<gassign *>(SSA_NAME_DEF_STMT(name)) : nullptr;
    if (!stmt || gimple_vuse(stmt) || !out.insert(stmt).second)
        return;
    for (unsigned i = 1; i < gimple_num_ops(stmt); i++)
        add_definitions(gimple_op(stmt, i), out);
}

/* The conditions under which a sanitizer reports, and what they are computed from. */
static std::set<gimple *> sanitizer_checks(function *fun)
{
    std::set<gimple *> out;
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            /* Their arguments do not have the declared types: no gimple_call_builtin_p. */
            tree callee = is_gimple_call(gsi_stmt(gsi)) ? gimple_call_fndecl(gsi_stmt(gsi)) : NULL_TREE;
            if (!callee || !fndecl_built_in_p(callee, BUILT_IN_NORMAL))
                continue;
            built_in_function f = DECL_FUNCTION_CODE(callee);
            if (f <= BEGIN_SANITIZER_BUILTINS || f >= END_SANITIZER_BUILTINS)
                continue;
            edge e;
            edge_iterator it;
            FOR_EACH_EDGE(e, it, bb->preds)
                if (gcond *cond = safe_dyn_cast<gcond *>(gsi_stmt(gsi_last_nondebug_bb(e->src)))) {
                    out.insert(cond);
                    add_definitions(gimple_cond_lhs(cond), out);
                    add_definitions(gimple_cond_rhs(cond), out);
                }
        }
    return out;
}

std::vector<mv_question> mv_questions(function *fun, std::set<tree> &otherwise)
{
    std::vector<mv_question> out;
    std::set<gimple *> checks = sanitizer_checks(fun);
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            tree sw = mv_load_of_switch(gsi_stmt(gsi));
            if (!sw)
                continue;
            tree lhs = gimple_get_lhs(gsi_stmt(gsi));
            follower f{sw, checks, out, otherwise, {}, {}};
            f.way.push_back({TREE_TYPE(lhs), 0});
            f.follow(lhs, 0);
        }
    return out;
}
