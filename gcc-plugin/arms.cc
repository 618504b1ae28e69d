/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * arms.cc: which functions are decided where they are called, and what their callers get (inline.cc).
 *
 * Those that the program wants so, at all calls.  And unasked those so small that GCC would inline them
 * by itself, if they were no variation points: copies of them cost a caller hardly more than the call
 * does, and less while nothing is committed.  But of those only such that do something or nothing, and
 * calls that run more often than who calls: else a descriptor, and a selection in each commit, buy nothing.
 *
 * How often is GCC's guess, from loops and from what the program says (`cold`, __builtin_expect).  A
 * profile comes later, and what is compiled to be measured must be the same code.
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

/* Where GCC inlines what is not declared inline. */
static bool inlines_by_itself(tree fndecl)
{
    return opt_for_fn(fndecl, flag_inline_small_functions) && !opt_for_fn(fndecl, optimize_size);
}

/* Whether its body may stand where it is called, for what no arm is there for.  Not when it may be
 * another unit's: that one may be bound to a variant, by a commit that knew nothing of the call. */
static bool may_stand_there(cgraph_node *node)
{
    return !opt_for_fn(node->decl, optimize_size) && decl_binds_to_current_def_p(node->decl) &&
           !node->get_comdat_group() &&
           estimate_num_insns_fn(node->decl, &eni_size_weights) <=
               opt_for_fn(node->decl, param_max_inline_insns_auto);
}

bool mv_runs_often(cgraph_edge *call)
{
    return call && inlines_by_itself(call->caller->decl) && call->maybe_hot_p() &&
           call->sreal_frequency() > 1;
}

/* Nothing, or a truth that is certain.  What arms compute takes registers of the caller's loop for all
 * of them, and costs more than a committed call, which may have become one instruction. */
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

static bool is_chosen(cgraph_node *generic, const std::vector<cgraph_node *> &bodies)
{
    if (bodies.size() > most_arms_unasked || !may_stand_there(generic) || !inlines_by_itself(generic->decl) ||
        lookup_attribute(MV_ATTR_NOINLINE, DECL_ATTRIBUTES(generic->decl)) ||
        !std::all_of(bodies.begin(), bodies.end(), only_acts_or_decides))
        return false;
    for (cgraph_edge *e = generic->callers; e; e = e->next_caller)
        if (mv_runs_often(e))
            return true;
    return false;
}

/* ---- what callers get ---------------------------------------------------------------- */

/* Without `noipa`, which is for who may be called instead of another. */
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

/* With the values that the program begins with, as far as the unit knows them. */
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

/* The arm of each variant; -1: there is none for it.  The first arm costs nothing. */
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

/* Reads the switches each time, as the function does that is not inlined. */
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
    if (!made.asked && !is_chosen(generic, bodies))
        return false;
    bool has_all = made.arm_of.find('-') == std::string::npos;
    for (cgraph_node *body : bodies) {
        cgraph_node *copy = copy_for_callers(body);
        if (!copy)
            return false;
        made.arms.push_back(copy->decl);
    }
    made.generic = generic->decl;
    if (cgraph_node *copy = has_all && may_stand_there(generic) ? copy_for_callers(generic) : nullptr) {
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
