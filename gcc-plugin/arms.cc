/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * arms.cc: chooses the functions whose calls become inline calls, and the arms of their callers
 * (inline.cc).
 *
 * - A function with "inline": all its calls.
 * - Other functions, from -O2 on (not -Os): those so small that GCC would inline them if they were
 *   no variation points.  A copy costs the caller hardly more than the call, and less while nothing
 *   is committed.  `noinline` functions and C++ inline functions are excluded.  The variants must
 *   return nothing or a constant bool.  A call by branch must not be cold.  A call by jump must run
 *   more often than its caller: otherwise its descriptor, and its part of each commit, do not pay.
 *
 * The frequency is GCC's guess, from loops and hints (`cold`, __builtin_expect).  A profile comes
 * later, and the code that is profiled must be the code that is shipped.
 */
#include "multiverse.h"

static const unsigned most_arms = 8;
static const unsigned most_arms_unasked = 4;

static std::unordered_map<unsigned, mv_offer> offers; /* by DECL_UID of the generic */
static std::set<tree> copies;

/* ---- which functions ----------------------------------------------------------------- */

bool mv_may_inline(tree fndecl)
{
    return opt_for_fn(fndecl, optimize) && !opt_for_fn(fndecl, optimize_debug) && !flag_no_inline;
}

/* Whether GCC inlines functions here that are not declared inline. */
static bool inlines_by_itself(tree fndecl)
{
    return opt_for_fn(fndecl, flag_inline_small_functions) && !opt_for_fn(fndecl, optimize_size);
}

/* False if the definition may be another unit's: a commit may have bound that one without knowing
 * of this call. */
static bool is_only_here(cgraph_node *node)
{
    return decl_binds_to_current_def_p(node->decl) && !node->get_comdat_group();
}

/* Whether its body may be copied into callers, for values without an arm. */
static bool may_stand_there(cgraph_node *node)
{
    return !opt_for_fn(node->decl, optimize_size) && is_only_here(node) &&
           estimate_num_insns_fn(node->decl, &eni_size_weights) <=
               opt_for_fn(node->decl, param_max_inline_insns_auto);
}

bool mv_is_worth_it(cgraph_edge *call, bool branches)
{
    return call && inlines_by_itself(call->caller->decl) && call->maybe_hot_p() &&
           (branches || call->sreal_frequency() > 1);
}

/* The body returns nothing, or a constant bool.  A computed result takes registers of the caller's
 * loop for all arms.  It costs more than a committed call, which may have become one instruction. */
static bool only_acts_or_decides(cgraph_node *node)
{
    edge e;
    edge_iterator ei;
    FOR_EACH_EDGE(e, ei, EXIT_BLOCK_PTR_FOR_FN(DECL_STRUCT_FUNCTION(node->decl))->preds) {
        gimple_stmt_iterator gsi = gsi_last_bb(e->src);
        greturn *last = gsi_end_p(gsi) ? nullptr : dyn_cast<greturn *>(gsi_stmt(gsi));
        tree value = last ? gimple_return_retval(last) : NULL_TREE;
        if (value && (TREE_CODE(TREE_TYPE(value)) != BOOLEAN_TYPE || !is_gimple_min_invariant(value)))
            return false;
    }
    return true;
}

static bool is_chosen(cgraph_node *generic, const std::vector<cgraph_node *> &bodies, bool branches)
{
    if (bodies.size() > most_arms_unasked || !may_stand_there(generic) || !inlines_by_itself(generic->decl) ||
        lookup_attribute(MV_ATTR_NOINLINE, DECL_ATTRIBUTES(generic->decl)) ||
        !std::all_of(bodies.begin(), bodies.end(), only_acts_or_decides))
        return false;
    for (cgraph_edge *e = generic->callers; e; e = e->next_caller)
        if (mv_is_worth_it(e, branches))
            return true;
    return false;
}

/* ---- what callers get ---------------------------------------------------------------- */

/* Without `noipa`, which is for functions that may be replaced. */
static bool is_certain(cgraph_node *generic)
{
    tree saved = DECL_ATTRIBUTES(generic->decl);
    DECL_ATTRIBUTES(generic->decl) = remove_attribute("noipa", copy_list(saved));
    bool certain = generic->get_availability() >= AVAIL_AVAILABLE;
    DECL_ATTRIBUTES(generic->decl) = saved;
    return certain;
}

static cgraph_node *copy_for_callers(cgraph_node *variant)
{
    tree saved = DECL_ATTRIBUTES(variant->decl), attributes = mv_variant_attributes(saved);
    for (const char *name : {"noipa", "noinline", "noclone", "no_icf", MV_ATTR_VARIANT})
        attributes = remove_attribute(name, attributes);
    DECL_ATTRIBUTES(variant->decl) = attributes;
    cgraph_node *node = shim_clone(variant, "inline");
    DECL_ATTRIBUTES(variant->decl) = saved;
    if (!node)
        return nullptr;
    DECL_ATTRIBUTES(node->decl) = attributes;
    DECL_UNINLINABLE(node->decl) = 0;
    DECL_DECLARED_INLINE_P(node->decl) = 1;
    DECL_NO_INLINE_WARNING_P(node->decl) = 1;
    DECL_DISREGARD_INLINE_LIMITS(node->decl) = 1;
    node->force_output = 0;
    copies.insert(node->decl);
    return node;
}

/* Whether the variant fits the initial values, as far as the unit knows them. */
static bool runs_first(const mv_variant &v, const std::vector<tree> &switches)
{
    for (size_t i = 0; i < switches.size(); i++) {
        tree sw = switches[i], initial = DECL_INITIAL(sw);
        const mv_range &r = v.ranges[i];
        int64_t value = initial && TREE_CODE(initial) == INTEGER_CST
                            ? mv_value_in_type(initial, TREE_TYPE(sw)) : 0;
        if (r.any || (mv_is_signed(sw) ? value < r.low || value > r.high
                                       : (uint64_t)value < (uint64_t)r.low ||
                                             (uint64_t)value > (uint64_t)r.high))
            return false;
    }
    return true;
}

/* The arm of each variant; -1: none.  The first arm costs nothing. */
static std::vector<int> choose_arms(const std::vector<mv_variant> &variants,
                                    const std::vector<tree> &switches,
                                    std::vector<cgraph_node *> &bodies)
{
    for (const mv_variant &v : variants)
        if (runs_first(v, switches)) {
            bodies.push_back(v.node);
            break;
        }
    std::vector<int> arms;
    for (const mv_variant &v : variants) {
        size_t i = std::find(bodies.begin(), bodies.end(), v.node) - bodies.begin();
        if (i == bodies.size() && i < most_arms)
            bodies.push_back(v.node);
        arms.push_back(i < bodies.size() ? i : -1);
    }
    return arms;
}

/* Makes the copy read the switches each time, like the function itself. */
static void read_anew(cgraph_node *node)
{
    basic_block bb;
    push_cfun(DECL_STRUCT_FUNCTION(node->decl));
    FOR_EACH_BB_FN(bb, cfun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            HOST_WIDE_INT offset;
            tree sw = mv_load_of_switch(gsi_stmt(gsi));
            if (!sw || !is_gimple_assign(gsi_stmt(gsi)))
                continue;
            tree variable = mv_variable_of(sw, &offset), type = TREE_TYPE(gimple_assign_rhs1(gsi_stmt(gsi)));
            tree ref = build2(MEM_REF, build_qualified_type(type, TYPE_QUAL_VOLATILE),
                              build_fold_addr_expr(variable), build_int_cst(build_pointer_type(type), offset));
            TREE_THIS_VOLATILE(ref) = TREE_SIDE_EFFECTS(ref) = 1;
            gimple_assign_set_rhs1(gsi_stmt(gsi), ref);
            update_stmt(gsi_stmt(gsi));
        }
    pop_cfun();
}

/* ---- a branch ------------------------------------------------------------------------ */

/* Whether the function reads the switch first, and then does what one of two variants does.  A read
 * after some other effect, which might change the switch, does not count, nor one in a loop, which
 * may wait for another thread to change the switch. */
static bool asks_first(cgraph_node *generic, tree sw)
{
    function *fun = DECL_STRUCT_FUNCTION(generic->decl);
    HOST_WIDE_INT offset;
    basic_block bb;
    if (mv_is_tracked(sw) || DECL_WEAK(mv_variable_of(sw, &offset)) || !loops_for_fn(fun))
        return false;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi)) {
            gimple *stmt = gsi_stmt(gsi);
            if (mv_load_of_switch(stmt) == sw &&
                (bb_loop_depth(bb) || !gimple_vuse(stmt) || !SSA_NAME_IS_DEFAULT_DEF(gimple_vuse(stmt))))
                return false;
        }
    return true;
}

/* The comparison for a `jcc` to the second of two arms, if one of them is for a single value and
 * the other for all others; else "".  %1 is the switch. */
static std::string comparison(const mv_offer &o, tree sw, const std::vector<mv_variant> &variants)
{
    mv_piece all = mv_is_bool(sw) ? mv_piece{0, 1} : mv_all_values(TREE_TYPE(sw));
    mv_wide left = all.high - all.low + 1, value = 0;
    unsigned of[2] = {0, 0}, single[2] = {0, 0};
    for (size_t i = 0; i < variants.size(); i++) {
        const mv_range &r = variants[i].ranges[0];
        left -= (mv_wide)((uint64_t)r.high - (uint64_t)r.low) + 1;
        of[o.arm_of[i] - 'a']++;
        single[o.arm_of[i] - 'a'] += r.low == r.high;
    }
    bool second = !(of[0] == 1 && single[0] == 1);
    if (left || (second && !(of[1] == 1 && single[1] == 1)))
        return "";
    for (size_t i = 0; i < variants.size(); i++)
        if (o.arm_of[i] - 'a' == second)
            value = variants[i].ranges[0].low;
    if (value != (int32_t)value)
        return "";
    std::string number = std::to_string((int)value);
    std::string suffix(1, " bw l   q"[mv_width(sw)]);
    return "{cmp" + suffix + "\t$" + number + ", %@|cmp\t%@, " + number + "}\n\t.p2align 3,,5\n77:\t.byte\t0x0f, " +
           (second ? "0x84" : "0x85");
}

bool mv_offer_inline(cgraph_node *generic, const std::vector<tree> &switches,
                     const std::vector<mv_variant> &variants)
{
    if (variants.empty() || !mv_may_inline(generic->decl) || mv_is_large_model() || !is_certain(generic))
        return false;
    mv_offer made;
    std::vector<cgraph_node *> bodies;
    for (int arm : choose_arms(variants, switches, bodies))
        made.arm_of += arm < 0 ? '-' : 'a' + arm;
    made.asked = mv_is_inline(generic->decl);
    bool has_all = made.arm_of.find('-') == std::string::npos;
    if (has_all && bodies.size() == 2 && switches.size() == 1 && is_only_here(generic) &&
        asks_first(generic, switches[0])) {
        made.branch = comparison(made, switches[0], variants);
        made.compared = switches[0];
    }
    if (!made.asked && !is_chosen(generic, bodies, !made.branch.empty()))
        return false;
    for (cgraph_node *body : bodies) {
        cgraph_node *copy = copy_for_callers(body);
        if (!copy)
            return false;
        made.arms.push_back(copy->decl);
    }
    made.generic = generic->decl;
    if (!made.branch.empty()) {
        made.generic = made.arms.back();
        made.arms.pop_back();
    } else if (cgraph_node *copy = has_all && may_stand_there(generic) ? copy_for_callers(generic) : nullptr) {
        read_anew(copy);
        made.generic = copy->decl;
    }
    offers[DECL_UID(generic->decl)] = made;
    return true;
}

void mv_complete_offer(cgraph_node *generic, tree array)
{
    offers[DECL_UID(generic->decl)].array = array;
}

const std::set<tree> &mv_copies()
{
    return copies;
}

const mv_offer *mv_offer_of(tree fndecl)
{
    auto it = offers.find(DECL_UID(fndecl));
    return it == offers.end() ? nullptr : &it->second;
}
