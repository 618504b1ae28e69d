/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * substitute.cc: replaces a switch in the body of a variant by its value, or its comparisons by
 * their results for a range.
 *
 * A plain read of the whole switch becomes a constant.  A volatile read, an atomic one that orders
 * memory, an asm operand and a read of a part stay; this is always correct, because the variant is
 * in force only while the switch has the value.  combination.cc chooses switches and functions.
 *
 * For a range there is no constant: a comparison becomes its result, if it has the same one for the
 * whole range, and the caller is told whether anything else uses the value.
 */
#include "multiverse.h"

/* At -O0 nothing propagates constants, but a test of the switch must disappear all the same:
 * through the unnamed temporaries that hold it, and with them, because they would distinguish
 * bodies that do the same. */
static void propagate(tree name, tree value)
{
    if (TREE_CODE(name) != SSA_NAME || SSA_NAME_OCCURS_IN_ABNORMAL_PHI(name) ||
        (SSA_NAME_VAR(name) && !DECL_ARTIFICIAL(SSA_NAME_VAR(name))))
        return;
    std::vector<gimple *> users;
    imm_use_iterator it;
    gimple *user;
    FOR_EACH_IMM_USE_STMT(user, it, name) {
        use_operand_p use;
        FOR_EACH_IMM_USE_ON_STMT(use, it)
            SET_USE(use, value);
        if (gimple_code(user) != GIMPLE_PHI && !is_gimple_debug(user))
            users.push_back(user);
        else
            update_stmt(user);
    }
    for (gimple *stmt : users) {
        gimple_stmt_iterator gsi = gsi_for_stmt(stmt);
        fold_stmt(&gsi, follow_single_use_edges);
        stmt = gsi_stmt(gsi);
        update_stmt(stmt);
        if (gimple_assign_single_p(stmt) && is_gimple_min_invariant(gimple_assign_rhs1(stmt)))
            propagate(gimple_assign_lhs(stmt), gimple_assign_rhs1(stmt));
    }
    if (has_zero_uses(name)) {
        gimple_stmt_iterator gsi = gsi_for_stmt(SSA_NAME_DEF_STMT(name));
        gsi_remove(&gsi, true);
        release_ssa_name(name);
    }
}

/* The statement becomes `lhs = value`; the iterator follows it. */
static void make_constant(gimple_stmt_iterator &gsi, tree value)
{
    gimple *stmt = gsi_stmt(gsi);
    if (is_gimple_call(stmt)) {
        gassign *assign = gimple_build_assign(gimple_call_lhs(stmt), value);
        gimple_set_location(assign, gimple_location(stmt));
        unlink_stmt_vdef(stmt);
        if (gimple_vdef(stmt))
            release_ssa_name(gimple_vdef(stmt));
        gsi_replace(&gsi, assign, true);
        return;
    }
    gimple_assign_set_rhs_from_tree(&gsi, value);
    stmt = gsi_stmt(gsi);
    update_stmt(stmt);
    if (maybe_clean_eh_stmt(stmt))
        gimple_purge_dead_eh_edges(gimple_bb(stmt));
}

static std::vector<gimple *> loads_of(function *fun, tree sw)
{
    std::vector<gimple *> out;
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi))
            if (mv_load_of_switch(gsi_stmt(gsi)) == sw)
                out.push_back(gsi_stmt(gsi));
    return out;
}

void mv_substitute(function *fun, tree sw, mv_wide value)
{
    tree constant = build_int_cst(TREE_TYPE(sw), (int64_t)value);
    for (gimple *load : loads_of(fun, sw)) {
        tree lhs = gimple_get_lhs(load), folded = fold_convert(TREE_TYPE(lhs), constant);
        gimple_stmt_iterator gsi = gsi_for_stmt(load);
        make_constant(gsi, folded);
        if (!optimize)
            propagate(lhs, folded);
    }
}

static bool is_inside(const mv_piece &p, const mv_pieces &pieces)
{
    return std::any_of(pieces.begin(), pieces.end(), [&](const mv_piece &o) {
        return o.low <= p.low && p.high <= o.high;
    });
}

static bool is_outside(const mv_piece &p, const mv_pieces &pieces)
{
    return std::none_of(pieces.begin(), pieces.end(), [&](const mv_piece &o) {
        return o.low <= p.high && p.low <= o.high;
    });
}

/* Replaces comparisons of the switch that have one result for the whole range. */
void mv_answer(function *fun, tree sw, const mv_piece &range)
{
    std::set<tree> otherwise;
    for (const mv_question &q : mv_questions(fun, otherwise)) {
        if (q.sw != sw || q.only_examples ||
            !std::all_of(q.answers.begin(), q.answers.end(), [&](const mv_pieces &a) {
                return is_inside(range, a) || is_outside(range, a);
            }))
            continue;
        if (gswitch *stmt = dyn_cast<gswitch *>(q.stmt)) {
            tree index = gimple_switch_index(stmt);
            gimple_switch_set_index(stmt, build_int_cst(TREE_TYPE(index),
                                                        (int64_t)mv_compared_value(q, range.low)));
            update_stmt(stmt);
            continue;
        }
        bool holds = is_inside(range, q.answers[0]);
        if (gcond *cond = dyn_cast<gcond *>(q.stmt)) {
            holds ? gimple_cond_make_true(cond) : gimple_cond_make_false(cond);
            update_stmt(cond);
            continue;
        }
        tree lhs = gimple_assign_lhs(q.stmt), value = build_int_cst(TREE_TYPE(lhs), holds);
        gimple_stmt_iterator gsi = gsi_for_stmt(q.stmt);
        make_constant(gsi, value);
        if (!optimize)
            propagate(lhs, value);
    }
}

static gimple *user_of(tree name)
{
    imm_use_iterator it;
    use_operand_p use;
    FOR_EACH_IMM_USE_FAST(use, it, name)
        if (!is_gimple_debug(USE_STMT(use)))
            return USE_STMT(use);
    return nullptr;
}

/* Removes statements that only compute the name, if it has no other use; returns whether it is
 * gone. */
static bool drop(tree name, unsigned depth = 0)
{
    while (gimple *user = user_of(name)) {
        gassign *assign = dyn_cast<gassign *>(user);
        if (depth > 12 || !assign || gimple_vdef(assign) || stmt_could_throw_p(cfun, assign) ||
            TREE_CODE(gimple_assign_lhs(assign)) != SSA_NAME ||
            !drop(gimple_assign_lhs(assign), depth + 1))
            return false;
    }
    gimple *stmt = SSA_NAME_DEF_STMT(name);
    gimple_stmt_iterator gsi = gsi_for_stmt(stmt);
    unlink_stmt_vdef(stmt);
    gsi_remove(&gsi, true);
    release_defs(stmt);
    return true;
}

/* Whether the function still uses the value of the switch. */
bool mv_uses_value(function *fun, tree sw)
{
    bool found = false;
    for (gimple *load : loads_of(fun, sw))
        found |= !drop(gimple_get_lhs(load));
    return found;
}
