/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * variants.cc: clones of a variation point in which switches are constants.
 *
 * When: a small IPA pass right after early local optimisation.  Bodies are in
 * SSA form, small helpers have been inlined (what they read of a switch counts),
 * no interprocedural analysis has run and LTO has not written anything yet.
 *
 * What may be a constant: a plain read of the whole switch.  A volatile read, an
 * atomic one that orders memory, an asm operand or a read of a part stays what
 * it is; that is always right, for the variant is only in force while the switch
 * has the value.  combination.cc says which switches, and for which functions.
 *
 * What a clone keeps: the ABI of its generic (`noipa` as the generic is), its
 * static variables, its calls of the generic.  It is local to the unit; that of
 * a COMDAT function lies in the same group.
 */
#include "multiverse.h"

/* ---- why a body cannot be copied ---------------------------------------------- */

/* `name:` at the start of an asm statement would be defined twice. */
static bool defines_label(const char *p)
{
    bool start = true;
    for (; *p; p++) {
        if (*p == '\n' || *p == ';') {
            start = true;
        } else if (start && (ISALPHA(*p) || *p == '_' || *p == '.')) {
            const char *q = p;
            bool unique = false;
            while (ISALNUM(*q) || *q == '_' || *q == '.' || *q == '$' || *q == '%') {
                unique |= q[0] == '%' && q[1] == '=';
                if (q[0] == '%' && q[1] == '=')
                    q++;
                q++;
            }
            if (*q == ':' && !unique)
                return true;
            if (!strncmp(p, ".globl", 6) || !strncmp(p, ".set", 4) || !strncmp(p, ".type", 5))
                return true;
            start = false;
        } else if (!ISSPACE(*p)) {
            start = false;
        }
    }
    return false;
}

static bool has_labelling_asm(function *fun)
{
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi))
            if (gasm *stmt = dyn_cast<gasm *>(gsi_stmt(gsi)))
                if (defines_label(gimple_asm_string(stmt)))
                    return true;
    return false;
}

static bool may_copy(function *fun)
{
    location_t loc = DECL_SOURCE_LOCATION(fun->decl);
    const char *why = nullptr;
    if (fun->has_forced_label_in_static)
        why = "it keeps addresses of its labels in a static variable";
    else if (fun->has_nonlocal_label)
        why = "a nested function jumps into it";
    else if (has_labelling_asm(fun))
        why = "it has an asm that defines a symbol";
    if (why)
        warning_at(loc, 0, "no variants are made of variation point %qD: %s", fun->decl, why);
    return !why;
}

/* ---- making one ----------------------------------------------------------------- */

static std::string suffix_of(const mv_combination &c, const std::vector<int> &point)
{
    std::string s = "multiverse";
    for (size_t i = 0; i < point.size(); i++)
        if (point[i] >= 0)
            s += std::string(".") + IDENTIFIER_POINTER(DECL_NAME(c.switches[i])) + "_" +
                 c.domains[i][point[i]].label;
    return s;
}

static tree variant_attributes(tree attributes)
{
    attributes = copy_list(attributes);
    for (const char *name : {MV_ATTR, MV_ATTR_NAME, "constructor", "destructor", "weak", "used",
                             "retain", "externally_visible", "symver", "visibility", "alias"})
        attributes = remove_attribute(name, attributes);
    return tree_cons(get_identifier(MV_ATTR_VARIANT), NULL_TREE, attributes);
}

static cgraph_node *clone(cgraph_node *generic, const char *suffix)
{
    tree decl = generic->decl, saved = DECL_ATTRIBUTES(decl);
    DECL_ATTRIBUTES(decl) = remove_attribute("noclone", copy_list(saved));
    cgraph_node *node = generic->create_version_clone_with_body(vNULL, nullptr, nullptr, nullptr,
                                                                nullptr, suffix, NULL_TREE, false);
    DECL_ATTRIBUTES(decl) = saved;
    if (!node)
        return nullptr;
    DECL_ATTRIBUTES(node->decl) = variant_attributes(saved);
    DECL_PRESERVE_P(node->decl) = 0;
    node->force_output = 0;
    node->local = 0; /* its callers are those of the generic: the plain ABI */
    if (generic->get_comdat_group())
        node->add_to_same_comdat_group(generic);
    return node;
}

/* At -O0 nothing propagates constants; a test of the switch shall go away all
 * the same, through the unnamed temporaries that hold it, and these with it: they
 * would tell apart bodies that do the same. */
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

static void substitute(function *fun, tree sw, int64_t value)
{
    tree constant = build_int_cst(TREE_TYPE(sw), value);
    for (gimple *load : loads_of(fun, sw)) {
        tree lhs = gimple_get_lhs(load), folded = fold_convert(TREE_TYPE(lhs), constant);
        gimple_stmt_iterator gsi = gsi_for_stmt(load);
        make_constant(gsi, folded);
        if (!optimize)
            propagate(lhs, folded);
    }
}

/* What every function goes through between SSA construction and IPA. */
static opt_pass *local_optimisation()
{
    for (opt_pass *p = g->get_passes()->all_small_ipa_passes; p; p = p->next)
        if (!strcmp(p->name, "opt_local_passes"))
            return p->sub;
    return nullptr;
}

static void specialise(cgraph_node *node, const mv_combination &c, const std::vector<int> &point)
{
    function *fun = DECL_STRUCT_FUNCTION(node->decl);
    push_cfun(fun);
    for (size_t i = 0; i < point.size(); i++)
        if (point[i] >= 0)
            substitute(fun, c.switches[i], c.domains[i][point[i]].value);
    cleanup_tree_cfg();
    update_ssa(TODO_update_ssa);

    /* What the generic has to say to its author it has said already. */
    bool quiet = shim_inhibit_warnings(true);
    opt_pass *pass = current_pass;
    execute_pass_list(fun, local_optimisation());
    current_pass = pass;
    shim_inhibit_warnings(quiet);
    pop_cfun();
}

/* ---- making all ---------------------------------------------------------------------- */

/* Counts `point` up; -1 stands for a tracked switch left unbound. */
static bool next_point(const mv_combination &c, std::vector<int> &point)
{
    for (size_t i = 0; i < point.size(); i++) {
        if (++point[i] < (int)c.domains[i].size())
            return true;
        point[i] = mv_is_tracked(c.switches[i]) ? -1 : 0;
    }
    return false;
}

static void generate(cgraph_node *generic, const mv_combination &c, std::vector<mv_variant> &out)
{
    if (c.switches.empty())
        return;
    std::vector<int> point;
    for (tree sw : c.switches)
        point.push_back(mv_is_tracked(sw) ? -1 : 0);
    do {
        if (std::all_of(point.begin(), point.end(), [](int p) { return p < 0; }))
            continue; /* nothing bound: that is the generic */
        cgraph_node *node = clone(generic, suffix_of(c, point).c_str());
        if (!node)
            return;
        specialise(node, c, point);
        mv_variant v;
        v.node = node;
        for (size_t i = 0; i < point.size(); i++) {
            int64_t value = point[i] < 0 ? 0 : c.domains[i][point[i]].value;
            v.ranges.push_back({value, value, point[i] < 0});
        }
        for (const mv_variant &other : out)
            if (mv_equal_bodies(other.node->decl, node->decl)) {
                v.node = other.node;
                node->remove();
                break;
            }
        out.push_back(v);
    } while (next_point(c, point));
}

static void generate_for(cgraph_node *generic)
{
    function *fun = DECL_STRUCT_FUNCTION(generic->decl);
    mv_combination c;
    std::vector<mv_variant> variants;
    mv_choose_switches(fun, c);
    if (!c.switches.empty() && may_copy(fun)) {
        mv_apply_cap(generic->decl, c);
        generate(generic, c, variants);
        mv_merge_guards(variants, c.switches);
    }
    if (mv_opts.verbose) {
        std::set<cgraph_node *> bodies;
        for (const mv_variant &v : variants)
            bodies.insert(v.node);
        inform(DECL_SOURCE_LOCATION(generic->decl),
               "variation point %qD: %u switches, %u variants, %u bodies", generic->decl,
               (unsigned)c.switches.size(), (unsigned)variants.size(), (unsigned)bodies.size());
    }
    mv_attach_record(generic, c.switches, variants);
}

void mv_generate_variants()
{
    std::vector<cgraph_node *> generics;
    cgraph_node *node;
    if (seen_error())
        return;
    FOR_EACH_FUNCTION_WITH_GIMPLE_BODY(node)
        if (mv_is_function(node->decl) && node->definition && !node->alias &&
            !DECL_EXTERNAL(node->decl) && !node->inlined_to)
            generics.push_back(node);
    /* The list runs from the last function to the first. */
    for (auto it = generics.rbegin(); it != generics.rend(); ++it)
        generate_for(*it);
}
