/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * inline.cc: inline calls; arms.cc chooses the functions.
 *
 *              jmp     .Lgeneric     e9 rel32         a commit writes the NOP 0f 1f 44 00 00
 *     arm 0:   first variant                          for the first variant, and a jump to the arm
 *     join:    …                                      of another one
 *
 *     arm 1:   second variant        jmp join
 *     generic: the function's body   jmp join         or, if that is large, an ordinary call
 *
 * If the generic is just a comparison and two bodies, it is the second arm itself, and the jump is
 * a branch, which decides until a commit:
 *
 *              cmpb    $0, switch
 *              jne     .Larm1        0f 85 rel32      the NOP 66 0f 1f 44 00 00, or e9 rel32 90
 *     arm 0:   first variant
 *
 * The comparison stays, because a thread may stand between it and the jump.  The asm has the switch
 * as a memory operand, so that earlier stores of the caller are not delayed past it.
 *
 * An asm goto makes the decision.  GCC may copy it by inlining and unrolling; each copy is a site
 * with a record like a variation point's: its pad is the five bytes, its variants are the arms.
 * Each arm calls a copy of its variant, which GCC inlines (always_inline); if GCC cannot, the arm
 * calls it.
 *
 * A variant without an arm (their number is limited), and one selected by a value unknown here (the
 * function may be another unit's), runs by the generic call, which is then kept as a call.  So
 * omissions are always correct.  The body reads the switches each time: otherwise GCC might move
 * the reads out of a loop.
 *
 * The arms are made right after the variants: before IPA, so that inlined bodies become part of
 * their callers, and after early optimisation, which has resolved callees.  Until code generation
 * the asm refers to the record's array (record.cc), because LTO may come between.
 */
#include "multiverse.h"

static const char marker[] = "# multiverse inline ";
static const unsigned most_unasked = 16; /* calls in one caller */

namespace {
struct inline_site {
    tree generic;
    mv_record record;
    std::string arm_of;
};
} // namespace

static std::vector<inline_site> taken;

/* ---- calls ------------------------------------------------------------------------------ */

static const mv_offer *offer_for(gcall *call)
{
    tree fndecl = gimple_call_fndecl(call), lhs = gimple_call_lhs(call);
    const mv_offer *o = fndecl ? mv_offer_of(fndecl) : nullptr;
    if (!o || gimple_call_noreturn_p(call) || gimple_call_must_tail_p(call) ||
        gimple_call_chain(call) || gimple_call_va_arg_pack_p(call) ||
        (gimple_call_flags(call) & ECF_RETURNS_TWICE) ||
        (lhs && TREE_CODE(lhs) == SSA_NAME && SSA_NAME_OCCURS_IN_ABNORMAL_PHI(lhs)))
        return nullptr;
    edge e;
    edge_iterator ei;
    if (stmt_ends_bb_p(call))
        FOR_EACH_EDGE(e, ei, gimple_bb(call)->succs)
            if (e->flags & EDGE_ABNORMAL)
                return nullptr;
    return o;
}

/* The memory effects of all these calls are computed anew. */
static void forget_memory(gcall *call)
{
    if (gimple_vdef(call) && TREE_CODE(gimple_vdef(call)) == SSA_NAME) {
        unlink_stmt_vdef(call);
        release_ssa_name(gimple_vdef(call));
    }
    gimple_set_vdef(call, NULL_TREE);
    gimple_set_vuse(call, NULL_TREE);
    update_stmt(call);
}

/* Splits behind the call; calls that may throw end their block. */
static basic_block split_behind(gcall *call)
{
    if (!stmt_ends_bb_p(call))
        return split_block(gimple_bb(call), call)->dest;
    return split_edge(find_fallthru_edge(gimple_bb(call)->succs));
}

static void copy_handlers(gcall *arm, gcall *call)
{
    int landing_pad = lookup_stmt_eh_lp(call);
    edge from;
    edge_iterator ei;
    if (!landing_pad || !stmt_could_throw_p(cfun, arm))
        return;
    add_stmt_to_eh_lp(arm, landing_pad);
    FOR_EACH_EDGE(from, ei, gimple_bb(call)->succs) {
        if (!(from->flags & EDGE_EH))
            continue;
        edge to = make_edge(gimple_bb(arm), from->dest, from->flags);
        to->probability = from->probability;
        for (gphi_iterator it = gsi_start_phis(from->dest); !gsi_end_p(it); gsi_next(&it))
            SET_USE(PHI_ARG_DEF_PTR_FROM_EDGE(it.phi(), to), PHI_ARG_DEF_FROM_EDGE(it.phi(), from));
    }
}

static gasm *build_goto(const char *text, vec<tree, va_gc> *inputs, vec<tree, va_gc> *labels)
{
    gasm *stmt = gimple_build_asm_vec(ggc_strdup(text), inputs, nullptr, nullptr, labels);
    gimple_asm_set_volatile(stmt, true);
    gimple_asm_set_inline(stmt, true);
    return stmt;
}

/* A jump or branch to the first label; the comparison's operand has that number. */
static std::string goto_text(const std::string &what, std::string branch, unsigned operand)
{
    for (size_t at; (at = branch.find("%@")) != std::string::npos;)
        branch.replace(at, 2, "%" + std::to_string(operand));
    std::string label = std::to_string(operand + !branch.empty());
    return marker + what + "\n\t" + (branch.empty() ? ".byte\t0xe9" : branch) + "\n\t.long\t%l" + label + "-.-4";
}

/* Labels: the generic's, then those of all arms except the first. */
static gasm *build_site(const mv_offer &o, gcall *call, const std::vector<gcall *> &arms)
{
    vec<tree, va_gc> *inputs = nullptr, *labels = nullptr;
    vec_safe_push(inputs, build_tree_list(build_tree_list(NULL_TREE, build_string(2, "i")),
                                          build_fold_addr_expr(o.array)));
    if (!o.branch.empty())
        vec_safe_push(inputs, build_tree_list(build_tree_list(NULL_TREE, build_string(2, "m")),
                                              mv_operand_of(o.compared)));
    vec_safe_push(labels, build_tree_list(NULL_TREE, gimple_block_label(gimple_bb(call))));
    for (size_t i = 1; i < arms.size(); i++)
        vec_safe_push(labels, build_tree_list(NULL_TREE, gimple_block_label(gimple_bb(arms[i]))));
    return build_goto(goto_text(o.arm_of, o.branch, 1).c_str(), inputs, labels);
}

/* Adds the calls of the arms before the call, each in its own block. */
static std::vector<gcall *> add_arms(gcall *call, const mv_offer &o)
{
    std::vector<gcall *> arms;
    gimple_stmt_iterator gsi = gsi_for_stmt(call);
    for (tree decl : o.arms) {
        gcall *arm = as_a<gcall *>(gimple_copy(call));
        gimple_call_set_fndecl(arm, decl);
        gsi_insert_before(&gsi, arm, GSI_SAME_STMT);
        arms.push_back(arm);
    }
    gimple_stmt_iterator before = gsi_for_stmt(arms[0]);
    gsi_prev(&before);
    if (gsi_end_p(before))
        split_block_after_labels(gimple_bb(call));
    else
        split_block(gimple_bb(call), gsi_stmt(before));
    for (gcall *arm : arms)
        split_block(gimple_bb(arm), arm);
    return arms;
}

/* Joins the results of all calls. */
static void join_results(gcall *call, const std::vector<gcall *> &arms, basic_block join)
{
    tree result = gimple_call_lhs(call);
    if (!result || TREE_CODE(result) != SSA_NAME)
        return;
    gphi *phi = create_phi_node(result, join);
    auto give = [&](gcall *stmt) {
        tree own = duplicate_ssa_name(result, stmt);
        gimple_call_set_lhs(stmt, own);
        add_phi_arg(phi, own, find_edge(gimple_bb(stmt), join), UNKNOWN_LOCATION);
    };
    give(call);
    for (gcall *arm : arms)
        give(arm);
}

static void expand(gcall *call, const mv_offer &o)
{
    forget_memory(call);
    std::vector<gcall *> arms = add_arms(call, o);
    basic_block site = single_pred(gimple_bb(arms[0])), join = split_behind(call);
    /* Otherwise another arm may follow the jump, which costs a jump. */
    profile_probability seldom = profile_probability::guessed_always().apply_scale(o.branch.empty() ? 1 : 20, 100);
    profile_probability other = profile_probability::guessed_always().apply_scale(20, 100 * arms.size());
    profile_probability first = (seldom + other.apply_scale(arms.size() - 1, 1)).invert();
    for (size_t i = 0; i < arms.size(); i++) {
        basic_block bb = gimple_bb(arms[i]);
        remove_edge(single_succ_edge(bb));
        make_single_succ_edge(bb, join, EDGE_FALLTHRU);
        edge in = i ? make_edge(site, bb, 0) : single_succ_edge(site);
        in->probability = i ? other : first;
        bb->count = site->count.apply_probability(in->probability);
    }
    make_edge(site, gimple_bb(call), 0)->probability = seldom;
    gimple_bb(call)->count = site->count.apply_probability(seldom);
    find_edge(gimple_bb(call), join)->probability = profile_probability::always();
    join->count = site->count;
    join_results(call, arms, join);
    for (gcall *arm : arms) {
        copy_handlers(arm, call);
        update_stmt(arm);
    }
    gimple_call_set_fndecl(call, o.generic);
    update_stmt(call);
    gasm *stmt = build_site(o, call, arms);
    gimple_set_location(stmt, gimple_location(call));
    gimple_stmt_iterator gsi = gsi_last_bb(site);
    gsi_insert_after(&gsi, stmt, GSI_NEW_STMT);
}

static void expand_in(cgraph_node *node)
{
    function *fun = DECL_STRUCT_FUNCTION(node->decl);
    std::vector<std::pair<gcall *, const mv_offer *>> calls;
    unsigned unasked = 0;
    basic_block bb;
    if (!mv_may_inline(node->decl) || !gimple_in_ssa_p(fun) || fun->calls_setjmp ||
        fun->has_nonlocal_label || mv_is_init_code(node->decl) || lookup_attribute("naked", DECL_ATTRIBUTES(node->decl)))
        return;
    push_cfun(fun);
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi))
            if (gcall *call = dyn_cast<gcall *>(gsi_stmt(gsi)))
                if (const mv_offer *o = offer_for(call))
                    if (o->asked || (mv_is_worth_it(node->get_edge(call), !o->branch.empty()) && unasked++ < most_unasked))
                        calls.push_back({call, o});
    if (!calls.empty()) {
        free_dominance_info(CDI_DOMINATORS);
        free_dominance_info(CDI_POST_DOMINATORS);
        for (auto &c : calls)
            expand(c.first, *c.second);
        mark_virtual_operands_for_renaming(fun);
        update_ssa(TODO_update_ssa_only_virtuals);
        free_dominance_info(CDI_DOMINATORS);
        cgraph_edge::rebuild_edges();
    }
    pop_cfun();
}

void mv_expand_inline_calls()
{
    std::vector<cgraph_node *> callers;
    const std::set<tree> &copies = mv_copies();
    cgraph_node *node;
    if (copies.empty())
        return;
    FOR_EACH_FUNCTION_WITH_GIMPLE_BODY(node)
        if (!node->inlined_to && node->definition && !copies.count(node->decl))
            callers.push_back(node);
    for (cgraph_node *caller : callers)
        expand_in(caller);
}

/* ---- code is generated --------------------------------------------------------------------- */

/* Reads the asm's references, and leaves it only its labels. */
static void take_site(gimple_stmt_iterator &gsi, gasm *stmt)
{
    inline_site site;
    tree array = TREE_VALUE(gimple_asm_input_op(stmt, 0));
    STRIP_NOPS(array);
    const char *text = gimple_asm_string(stmt) + strlen(marker);
    site.arm_of = std::string(text, strcspn(text, "\n"));
    if (TREE_CODE(array) != ADDR_EXPR ||
        !mv_read_array(TREE_OPERAND(array, 0), &site.generic, site.record) || !site.generic ||
        site.record.variants.size() != site.arm_of.size())
        return;
    vec<tree, va_gc> *labels = nullptr;
    for (unsigned i = 0; i < gimple_asm_nlabels(stmt); i++)
        vec_safe_push(labels, gimple_asm_label_op(stmt, i));
    vec<tree, va_gc> *inputs = nullptr;
    std::string branch;
    if (gimple_asm_ninputs(stmt) == 2) {
        vec_safe_push(inputs, gimple_asm_input_op(stmt, 1));
        const char *start = strchr(text, '\n') + 2;
        branch = std::string(start, strstr(start, "\n\t.long") - start);
        for (size_t at; (at = branch.find("%1")) != std::string::npos;)
            branch.replace(at, 2, "%@");
    }
    gasm *plain = build_goto(goto_text(std::to_string(taken.size()), branch, 0).c_str(), inputs, labels);
    gimple_set_vuse(plain, gimple_vuse(stmt));
    gimple_set_location(plain, gimple_location(stmt));
    gsi_replace(&gsi, plain, false);
    taken.push_back(site);
}

void mv_take_inline_calls(function *fun)
{
    basic_block bb;
    FOR_EACH_BB_FN(bb, fun) {
        gimple_stmt_iterator gsi = gsi_last_bb(bb);
        gasm *stmt = gsi_end_p(gsi) ? nullptr : dyn_cast<gasm *>(gsi_stmt(gsi));
        if (stmt && gimple_asm_nlabels(stmt) &&
            !strncmp(gimple_asm_string(stmt), marker, strlen(marker)))
            take_site(gsi, stmt);
    }
}

static std::string label_of(rtx operands, unsigned i)
{
    char name[32];
    ASM_GENERATE_INTERNAL_LABEL(name, "L", CODE_LABEL_NUMBER(XEXP(ASM_OPERANDS_LABEL(operands, i), 0)));
    return name[0] == '*' ? name + 1 : name;
}

bool mv_is_inline_site(rtx_insn *insn)
{
    rtx operands = JUMP_P(insn) ? extract_asm_operands(PATTERN(insn)) : NULL_RTX;
    return operands && !strncmp(ASM_OPERANDS_TEMPLATE(operands), marker, strlen(marker)) &&
           ISDIGIT(ASM_OPERANDS_TEMPLATE(operands)[strlen(marker)]);
}

std::string mv_inline_text(rtx_insn *insn, const std::string &label, const std::string &anchor)
{
    rtx operands = extract_asm_operands(PATTERN(insn));
    const inline_site &site = taken[atoi(ASM_OPERANDS_TEMPLATE(operands) + strlen(marker))];
    mv_record arms;
    bool branches = ASM_OPERANDS_INPUT_LENGTH(operands);
    std::string place = branches ? "77f" : label, behind = place + (branches ? "+6" : "+5");
    arms.switches = site.record.switches;
    for (size_t i = 0; i < site.arm_of.size(); i++) {
        if (site.arm_of[i] == '-')
            continue;
        mv_record::variant v = site.record.variants[i];
        unsigned arm = site.arm_of[i] - 'a'; /* the number of its label; 0 is the generic's */
        v.place = arm ? label_of(operands, branches ? 0 : arm) : behind;
        arms.variants.push_back(v);
    }
    return mv_inline_record_text(site.generic, arms, label_of(operands, 0), place, branches, anchor);
}
