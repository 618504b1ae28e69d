/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * variants.cc: clones of a variation point in which switches are constants.
 *
 * When: in a small IPA pass right after early local optimisation.  Bodies are in SSA form, small
 * helpers have been inlined (their reads of a switch count), no interprocedural analysis has run,
 * and LTO has not written anything.
 *
 * A clone keeps the ABI of its generic (`noipa`), its static variables, and its calls of the
 * generic.  It is local to the unit; the clone of a COMDAT function is in the same group.
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

tree mv_variant_attributes(tree attributes)
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
    cgraph_node *node = shim_clone(generic, suffix);
    DECL_ATTRIBUTES(decl) = saved;
    if (!node)
        return nullptr;
    DECL_ATTRIBUTES(node->decl) = mv_variant_attributes(saved);
    DECL_PRESERVE_P(node->decl) = 0;
    node->force_output = 0;
    node->local = 0; /* its callers are the generic's: the plain ABI */
    if (generic->get_comdat_group())
        node->add_to_same_comdat_group(generic);
    return node;
}

/* The passes that every function goes through between SSA construction and IPA. */
static opt_pass *local_optimisation()
{
    for (opt_pass *p = g->get_passes()->all_small_ipa_passes; p; p = p->next)
        if (!strcmp(p->name, "opt_local_passes"))
            return p->sub;
    return nullptr;
}

/* The values that the switches have in a variant; NULL: the switch is read. */
typedef std::vector<const mv_value *> values;

/* Makes the switches constant, or replaces their comparisons.  A body that still uses the value of
 * a switch with a range must not assume the range: the variable may have changed since the commit.
 * Such switches are returned. */
static std::vector<size_t> specialise(cgraph_node *node, const mv_combination &c, const values &with)
{
    function *fun = DECL_STRUCT_FUNCTION(node->decl);
    push_cfun(fun);
    for (size_t i = 0; i < with.size(); i++)
        if (with[i] && with[i]->example.low == with[i]->example.high)
            mv_substitute(fun, c.switches[i], with[i]->example.low);
        else if (with[i])
            mv_answer(fun, c.switches[i], with[i]->example);
    cleanup_tree_cfg();
    update_ssa(TODO_update_ssa);

    /* Warnings were already given for the generic. */
    bool quiet = shim_inhibit_warnings(true);
    opt_pass *pass = current_pass;
    execute_pass_list(fun, local_optimisation());
    current_pass = pass;
    shim_inhibit_warnings(quiet);

    std::vector<size_t> still_used;
    for (size_t i = 0; i < with.size(); i++)
        if (with[i] && with[i]->example.low != with[i]->example.high &&
            mv_uses_value(fun, c.switches[i]))
            still_used.push_back(i);
    cgraph_edge::rebuild_edges(); /* removed loads may have been calls */
    pop_cfun();
    return still_used;
}

/* Makes a variant; NULL if nothing in it would be fixed. */
static cgraph_node *make(cgraph_node *generic, const mv_combination &c, values with,
                         const std::string &suffix)
{
    while (std::any_of(with.begin(), with.end(), [](const mv_value *v) { return v; })) {
        cgraph_node *node = clone(generic, suffix.c_str());
        if (!node)
            return nullptr;
        std::vector<size_t> still_used = specialise(node, c, with);
        if (still_used.empty())
            return node;
        node->remove();
        for (size_t i : still_used)
            with[i] = nullptr;
    }
    return nullptr;
}

/* ---- making all ---------------------------------------------------------------------- */

/* Increments `point`; -1 stands for an unbound tracked switch. */
static bool next_point(const mv_combination &c, std::vector<int> &point)
{
    for (size_t i = 0; i < point.size(); i++) {
        if (++point[i] < (int)c.domains[i].size())
            return true;
        point[i] = mv_is_tracked(c.switches[i]) ? -1 : 0;
    }
    return false;
}

/* Returns the node, or an earlier one with the same body instead. */
static cgraph_node *unique(cgraph_node *node, const std::vector<mv_variant> &earlier)
{
    for (const mv_variant &other : earlier)
        if (mv_equal_bodies(other.node->decl, node->decl)) {
            node->remove();
            return other.node;
        }
    return node;
}

static void generate(cgraph_node *generic, const mv_combination &c, std::vector<mv_variant> &out)
{
    if (c.switches.empty())
        return;
    std::vector<int> point;
    for (tree sw : c.switches)
        point.push_back(mv_is_tracked(sw) ? -1 : 0);
    do {
        values with;
        mv_variant v;
        for (size_t i = 0; i < point.size(); i++) {
            with.push_back(point[i] < 0 ? nullptr : &c.domains[i][point[i]]);
            mv_piece piece = with[i] ? with[i]->piece : mv_piece{0, 0};
            v.ranges.push_back({(int64_t)piece.low, (int64_t)piece.high, !with[i]});
        }
        v.node = make(generic, c, with, suffix_of(c, point));
        if (!v.node)
            continue; /* nothing is fixed: the generic */
        v.node = unique(v.node, out);
        out.push_back(v);
    } while (next_point(c, point));
}

/* Joins neighbouring ranges of a switch that give the same body when nothing else is fixed. */
static void join_equal_ranges(cgraph_node *generic, mv_combination &c, size_t at)
{
    std::vector<mv_value> joined;
    mv_combination alone;
    cgraph_node *last = nullptr;
    alone.switches.push_back(c.switches[at]);
    for (const mv_value &v : c.domains[at]) {
        cgraph_node *node = make(generic, alone, {&v}, "multiverse.trial");
        bool same = node && last && joined.back().piece.high + 1 == v.piece.low &&
                    mv_equal_bodies(last->decl, node->decl);
        if (same)
            joined.back().piece.high = v.piece.high;
        else
            joined.push_back(v);
        if (last)
            last->remove();
        last = node;
    }
    if (last)
        last->remove();
    c.domains[at] = joined;
}

static void generate_for(cgraph_node *generic)
{
    function *fun = DECL_STRUCT_FUNCTION(generic->decl);
    mv_combination c;
    std::vector<mv_variant> variants;
    mv_choose_switches(fun, c);
    if (!c.switches.empty() && may_copy(fun)) {
        for (size_t i = 0; i < c.switches.size() && mv_is_over_cap(c); i++)
            if (c.domains[i].size() > 2)
                join_equal_ranges(generic, c, i);
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
    bool inlined = mv_offer_inline(generic, c.switches, variants);
    tree array = mv_attach_record(generic, c.switches, variants, inlined);
    if (inlined)
        mv_complete_offer(generic, array);
}

/* Calls of a body in another unit have no arms here. */
static void warn_of_missing_bodies()
{
    cgraph_node *node;
    FOR_EACH_FUNCTION(node)
        if (mv_is_function(node->decl) && mv_is_inline(node->decl) && !node->definition && node->callers)
            warning_at(DECL_SOURCE_LOCATION(node->decl), OPT_Wattributes, "%qD is %<multiverse(\"inline\")%> "
                       "but this unit has no body of it: its calls stay calls", node->decl);
}

void mv_generate_variants()
{
    std::vector<cgraph_node *> generics;
    cgraph_node *node;
    if (seen_error())
        return;
    warn_of_missing_bodies();
    FOR_EACH_FUNCTION_WITH_GIMPLE_BODY(node)
        if (mv_is_function(node->decl) && node->definition && !node->alias &&
            !DECL_EXTERNAL(node->decl) && !node->inlined_to)
            generics.push_back(node);
    /* The list runs from the last function to the first. */
    for (auto it = generics.rbegin(); it != generics.rend(); ++it)
        generate_for(*it);
    mv_expand_inline_calls();
}
