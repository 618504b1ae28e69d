/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * compare.cc: do two variants of one function do the same?
 *
 * GCC's own comparison (ipa-icf) defers the comparison of symbols, so it calls two functions equal
 * that differ only in their callees.  This comparison is stricter.  It walks both control flow
 * graphs in step from the entry; every block, edge, statement, operand, type, SSA name, local
 * variable and exception region of one must correspond to exactly one of the other.  Global symbols
 * must be the same.  Anything unknown counts as different: then there is one body too many, which
 * is correct.
 */
#include "multiverse.h"

namespace {

class comparison {
public:
    comparison(tree a, tree b)
        : fa(DECL_STRUCT_FUNCTION(a)), fb(DECL_STRUCT_FUNCTION(b)), da(a), db(b) {}
    bool equal();

private:
    function *fa, *fb;
    tree da, db;
    std::unordered_map<const void *, const void *> forth, back;
    std::vector<std::pair<basic_block, basic_block>> work;

    /* Binds a to b, or returns whether they are bound to each other. */
    bool bind(const void *a, const void *b)
    {
        auto f = forth.find(a), r = back.find(b);
        if (f != forth.end() || r != back.end())
            return f != forth.end() && r != back.end() && f->second == b && r->second == a;
        forth[a] = b;
        back[b] = a;
        return true;
    }

    bool block_pair(basic_block a, basic_block b)
    {
        if (!forth.count(a) && !back.count(b))
            work.push_back({a, b});
        return bind(a, b);
    }

    bool local(tree t, tree fn) const
    {
        return (VAR_P(t) && !is_global_var(t)) || TREE_CODE(t) == PARM_DECL ||
               TREE_CODE(t) == RESULT_DECL || TREE_CODE(t) == LABEL_DECL ||
               (TREE_CODE(t) == CONST_DECL && DECL_CONTEXT(t) == fn);
    }

    bool declarations(tree a, tree b);
    bool tables(tree a, tree b);
    bool names(tree a, tree b);
    bool constructors(tree a, tree b);
    bool expressions(tree a, tree b);
    bool operands(tree a, tree b);
    bool types(tree a, tree b);
    bool statements(gimple *a, gimple *b);
    bool calls(gcall *a, gcall *b);
    bool asms(gasm *a, gasm *b);
    bool handlers(gimple *a, gimple *b);
    bool regions(eh_region a, eh_region b);
    bool phis(basic_block a, basic_block b);
    bool blocks(basic_block a, basic_block b);
    bool edges(basic_block a, basic_block b);
};

bool comparison::types(tree a, tree b)
{
    if (a == b)
        return true;
    return a && b && types_compatible_p(a, b) && TYPE_ALIGN(a) == TYPE_ALIGN(b) &&
           TYPE_VOLATILE(a) == TYPE_VOLATILE(b) && TYPE_ADDR_SPACE(a) == TYPE_ADDR_SPACE(b) &&
           get_alias_set(a) == get_alias_set(b);
}

/* The table of a `switch`: each variant may have its own, with equal contents. */
static bool is_table(tree t)
{
    return VAR_P(t) && TREE_STATIC(t) && TREE_READONLY(t) && DECL_ARTIFICIAL(t) && !TREE_PUBLIC(t) &&
           DECL_INITIAL(t) && TREE_CODE(DECL_INITIAL(t)) == CONSTRUCTOR;
}

bool comparison::tables(tree a, tree b)
{
    return bind(a, b) && types(TREE_TYPE(a), TREE_TYPE(b)) && DECL_ALIGN(a) == DECL_ALIGN(b) &&
           constructors(DECL_INITIAL(a), DECL_INITIAL(b));
}

bool comparison::declarations(tree a, tree b)
{
    if (a == b)
        return !local(a, da) || bind(a, b);
    if (is_table(a) && is_table(b))
        return tables(a, b);
    if (TREE_CODE(a) != TREE_CODE(b) || !local(a, da) || !local(b, db) || !bind(a, b))
        return false;
    if (TREE_CODE(a) == LABEL_DECL) {
        if (FORCED_LABEL(a) != FORCED_LABEL(b))
            return false;
        return block_pair(label_to_block(fa, a), label_to_block(fb, b));
    }
    return types(TREE_TYPE(a), TREE_TYPE(b)) && DECL_ALIGN(a) == DECL_ALIGN(b) &&
           TREE_ADDRESSABLE(a) == TREE_ADDRESSABLE(b) &&
           TREE_THIS_VOLATILE(a) == TREE_THIS_VOLATILE(b) &&
           DECL_BY_REFERENCE(a) == DECL_BY_REFERENCE(b) &&
           (!VAR_P(a) || (DECL_HARD_REGISTER(a) == DECL_HARD_REGISTER(b) &&
                          !DECL_HARD_REGISTER(a) && !DECL_HAS_VALUE_EXPR_P(a) &&
                          !DECL_HAS_VALUE_EXPR_P(b)));
}

bool comparison::names(tree a, tree b)
{
    if (!bind(a, b) || !types(TREE_TYPE(a), TREE_TYPE(b)) ||
        SSA_NAME_IS_DEFAULT_DEF(a) != SSA_NAME_IS_DEFAULT_DEF(b) ||
        SSA_NAME_OCCURS_IN_ABNORMAL_PHI(a) != SSA_NAME_OCCURS_IN_ABNORMAL_PHI(b))
        return false;
    if (SSA_NAME_IS_DEFAULT_DEF(a)) {
        tree va = SSA_NAME_VAR(a), vb = SSA_NAME_VAR(b);
        return va && vb && declarations(va, vb);
    }
    return true;
}

bool comparison::constructors(tree a, tree b)
{
    if (!types(TREE_TYPE(a), TREE_TYPE(b)) || TREE_CLOBBER_P(a) != TREE_CLOBBER_P(b) ||
        CONSTRUCTOR_NELTS(a) != CONSTRUCTOR_NELTS(b))
        return false;
    for (unsigned i = 0; i < CONSTRUCTOR_NELTS(a); i++)
        if (!operands(CONSTRUCTOR_ELT(a, i)->index, CONSTRUCTOR_ELT(b, i)->index) ||
            !operands(CONSTRUCTOR_ELT(a, i)->value, CONSTRUCTOR_ELT(b, i)->value))
            return false;
    return true;
}

bool comparison::expressions(tree a, tree b)
{
    if (!types(TREE_TYPE(a), TREE_TYPE(b)) || TREE_THIS_VOLATILE(a) != TREE_THIS_VOLATILE(b) ||
        TREE_SIDE_EFFECTS(a) != TREE_SIDE_EFFECTS(b))
        return false;
    switch (TREE_CODE_CLASS(TREE_CODE(a))) {
    case tcc_constant:
        if (TREE_CODE(a) == STRING_CST)
            return TREE_STRING_LENGTH(a) == TREE_STRING_LENGTH(b) &&
                   !memcmp(TREE_STRING_POINTER(a), TREE_STRING_POINTER(b), TREE_STRING_LENGTH(a));
        return operand_equal_p(a, b, OEP_ONLY_CONST | OEP_BITWISE);
    case tcc_reference:
    case tcc_unary:
    case tcc_binary:
    case tcc_comparison:
    case tcc_expression:
        if (TREE_OPERAND_LENGTH(a) != TREE_OPERAND_LENGTH(b))
            return false;
        if ((TREE_CODE(a) == MEM_REF || TREE_CODE(a) == TARGET_MEM_REF) &&
            (MR_DEPENDENCE_CLIQUE(a) || MR_DEPENDENCE_CLIQUE(b) ||
             get_alias_set(a) != get_alias_set(b)))
            return false;
        if (TREE_CODE(a) == BIT_FIELD_REF || handled_component_p(a))
            if (REF_REVERSE_STORAGE_ORDER(a) != REF_REVERSE_STORAGE_ORDER(b) &&
                TREE_CODE(a) != COMPONENT_REF && TREE_CODE(a) != ARRAY_REF)
                return false;
        for (int i = 0; i < TREE_OPERAND_LENGTH(a); i++)
            if (!operands(TREE_OPERAND(a, i), TREE_OPERAND(b, i)))
                return false;
        return true;
    default:
        return a == b;
    }
}

bool comparison::operands(tree a, tree b)
{
    if (!a || !b)
        return a == b;
    if (TREE_CODE(a) != TREE_CODE(b))
        return false;
    switch (TREE_CODE(a)) {
    case SSA_NAME:
        return names(a, b);
    case VAR_DECL:
    case PARM_DECL:
    case RESULT_DECL:
    case LABEL_DECL:
    case FUNCTION_DECL:
    case CONST_DECL:
        return declarations(a, b);
    case FIELD_DECL:
        return a == b;
    case CASE_LABEL_EXPR:
        return operands(CASE_LOW(a), CASE_LOW(b)) && operands(CASE_HIGH(a), CASE_HIGH(b)) &&
               operands(CASE_LABEL(a), CASE_LABEL(b));
    case TREE_LIST:
        return operands(TREE_VALUE(a), TREE_VALUE(b)) &&
               operands(TREE_PURPOSE(a), TREE_PURPOSE(b)) &&
               operands(TREE_CHAIN(a), TREE_CHAIN(b));
    case CONSTRUCTOR:
        return constructors(a, b);
    default:
        return expressions(a, b);
    }
}

bool comparison::regions(eh_region a, eh_region b)
{
    for (; a && b; a = a->outer, b = b->outer) {
        if (forth.count(a) || back.count(b))
            return bind(a, b);
        if (!bind(a, b) || a->type != b->type)
            return false;
        if (a->type == ERT_TRY) {
            eh_catch x = a->u.eh_try.first_catch, y = b->u.eh_try.first_catch;
            for (; x && y; x = x->next_catch, y = y->next_catch)
                if (!operands(x->type_list, y->type_list) || !operands(x->label, y->label))
                    return false;
            if (x || y)
                return false;
        } else if (a->type == ERT_ALLOWED_EXCEPTIONS) {
            if (!operands(a->u.allowed.type_list, b->u.allowed.type_list) ||
                !operands(a->u.allowed.label, b->u.allowed.label))
                return false;
        } else if (a->type == ERT_MUST_NOT_THROW) {
            if (a->u.must_not_throw.failure_decl != b->u.must_not_throw.failure_decl)
                return false;
        }
    }
    return !a && !b;
}

bool comparison::handlers(gimple *a, gimple *b)
{
    int la = lookup_stmt_eh_lp_fn(fa, a), lb = lookup_stmt_eh_lp_fn(fb, b);
    if ((la > 0) != (lb > 0) || (la < 0) != (lb < 0))
        return false;
    if (la < 0)
        return regions((*fa->eh->region_array)[-la], (*fb->eh->region_array)[-lb]);
    if (la == 0)
        return true;
    eh_landing_pad x = (*fa->eh->lp_array)[la], y = (*fb->eh->lp_array)[lb];
    return bind(x, y) && regions(x->region, y->region) && operands(x->post_landing_pad,
                                                                  y->post_landing_pad);
}

bool comparison::calls(gcall *a, gcall *b)
{
    if (gimple_call_internal_p(a) != gimple_call_internal_p(b))
        return false;
    if (gimple_call_internal_p(a) ? gimple_call_internal_fn(a) != gimple_call_internal_fn(b)
                                  : !operands(gimple_call_fn(a), gimple_call_fn(b)) ||
                                        !types_compatible_p(gimple_call_fntype(a),
                                                            gimple_call_fntype(b)))
        return false;
    if (gimple_call_num_args(a) != gimple_call_num_args(b) ||
        gimple_call_flags(a) != gimple_call_flags(b) ||
        gimple_call_return_slot_opt_p(a) != gimple_call_return_slot_opt_p(b) ||
        gimple_call_from_thunk_p(a) != gimple_call_from_thunk_p(b) ||
        gimple_call_va_arg_pack_p(a) != gimple_call_va_arg_pack_p(b) ||
        gimple_call_alloca_for_var_p(a) != gimple_call_alloca_for_var_p(b) ||
        gimple_call_must_tail_p(a) != gimple_call_must_tail_p(b) ||
        gimple_call_tail_p(a) != gimple_call_tail_p(b) ||
        !operands(gimple_call_chain(a), gimple_call_chain(b)) ||
        !operands(gimple_call_lhs(a), gimple_call_lhs(b)))
        return false;
    for (unsigned i = 0; i < gimple_call_num_args(a); i++)
        if (!operands(gimple_call_arg(a, i), gimple_call_arg(b, i)))
            return false;
    return true;
}

bool comparison::asms(gasm *a, gasm *b)
{
    if (strcmp(gimple_asm_string(a), gimple_asm_string(b)) ||
        gimple_asm_volatile_p(a) != gimple_asm_volatile_p(b) ||
        shim_asm_basic_p(a) != shim_asm_basic_p(b) ||
        gimple_asm_ninputs(a) != gimple_asm_ninputs(b) ||
        gimple_asm_noutputs(a) != gimple_asm_noutputs(b) ||
        gimple_asm_nclobbers(a) != gimple_asm_nclobbers(b) ||
        gimple_asm_nlabels(a) != gimple_asm_nlabels(b))
        return false;
    for (unsigned i = 0; i < gimple_asm_ninputs(a); i++)
        if (!operands(gimple_asm_input_op(a, i), gimple_asm_input_op(b, i)))
            return false;
    for (unsigned i = 0; i < gimple_asm_noutputs(a); i++)
        if (!operands(gimple_asm_output_op(a, i), gimple_asm_output_op(b, i)))
            return false;
    for (unsigned i = 0; i < gimple_asm_nclobbers(a); i++)
        if (!operands(gimple_asm_clobber_op(a, i), gimple_asm_clobber_op(b, i)))
            return false;
    for (unsigned i = 0; i < gimple_asm_nlabels(a); i++)
        if (!operands(gimple_asm_label_op(a, i), gimple_asm_label_op(b, i)))
            return false;
    return true;
}

bool comparison::statements(gimple *a, gimple *b)
{
    if (gimple_code(a) != gimple_code(b) || !handlers(a, b))
        return false;
    switch (gimple_code(a)) {
    case GIMPLE_CALL:
        return calls(as_a<gcall *>(a), as_a<gcall *>(b));
    case GIMPLE_ASM:
        return asms(as_a<gasm *>(a), as_a<gasm *>(b));
    case GIMPLE_ASSIGN:
    case GIMPLE_COND:
        if (gimple_expr_code(a) != gimple_expr_code(b))
            return false;
        break;
    case GIMPLE_SWITCH:
    case GIMPLE_GOTO:
    case GIMPLE_RETURN:
    case GIMPLE_LABEL:
        break;
    case GIMPLE_RESX:
        return regions((*fa->eh->region_array)[gimple_resx_region(as_a<gresx *>(a))],
                       (*fb->eh->region_array)[gimple_resx_region(as_a<gresx *>(b))]);
    case GIMPLE_EH_DISPATCH:
        return regions(
            (*fa->eh->region_array)[gimple_eh_dispatch_region(as_a<geh_dispatch *>(a))],
            (*fb->eh->region_array)[gimple_eh_dispatch_region(as_a<geh_dispatch *>(b))]);
    case GIMPLE_PREDICT:
    case GIMPLE_NOP:
        return true;
    default:
        return false;
    }
    if (gimple_num_ops(a) != gimple_num_ops(b))
        return false;
    for (unsigned i = 0; i < gimple_num_ops(a); i++)
        if (!operands(gimple_op(a, i), gimple_op(b, i)))
            return false;
    return true;
}

bool comparison::edges(basic_block a, basic_block b)
{
    if (EDGE_COUNT(a->succs) != EDGE_COUNT(b->succs))
        return false;
    for (unsigned i = 0; i < EDGE_COUNT(a->succs); i++) {
        edge x = EDGE_SUCC(a, i), y = EDGE_SUCC(b, i);
        unsigned ignored = EDGE_DFS_BACK | EDGE_EXECUTABLE;
        if ((x->flags & ~ignored) != (y->flags & ~ignored) || !block_pair(x->dest, y->dest))
            return false;
        forth[x] = y;
    }
    return true;
}

/* After all blocks are paired: the edges are known by then. */
bool comparison::phis(basic_block a, basic_block b)
{
    gphi_iterator x = gsi_start_nonvirtual_phis(a), y = gsi_start_nonvirtual_phis(b);
    for (; !gsi_end_p(x) && !gsi_end_p(y); gsi_next_nonvirtual_phi(&x), gsi_next_nonvirtual_phi(&y)) {
        if (!operands(gimple_phi_result(x.phi()), gimple_phi_result(y.phi())))
            return false;
        edge e;
        edge_iterator it;
        if (EDGE_COUNT(a->preds) != EDGE_COUNT(b->preds))
            return false;
        FOR_EACH_EDGE(e, it, a->preds) {
            auto f = forth.find(e);
            if (f == forth.end())
                return false;
            edge other = (edge)const_cast<void *>(f->second);
            if (other->dest != b || !operands(PHI_ARG_DEF_FROM_EDGE(x.phi(), e),
                                              PHI_ARG_DEF_FROM_EDGE(y.phi(), other)))
                return false;
        }
    }
    return gsi_end_p(x) && gsi_end_p(y);
}

bool comparison::blocks(basic_block a, basic_block b)
{
    gimple_stmt_iterator x = gsi_start_nondebug_bb(a), y = gsi_start_nondebug_bb(b);
    for (; !gsi_end_p(x) && !gsi_end_p(y); gsi_next_nondebug(&x), gsi_next_nondebug(&y))
        if (!statements(gsi_stmt(x), gsi_stmt(y)))
            return false;
    return gsi_end_p(x) && gsi_end_p(y) && edges(a, b);
}

bool comparison::equal()
{
    if (n_basic_blocks_for_fn(fa) != n_basic_blocks_for_fn(fb) ||
        !types(TREE_TYPE(da), TREE_TYPE(db)))
        return false;
    tree x = DECL_ARGUMENTS(da), y = DECL_ARGUMENTS(db);
    for (; x && y; x = DECL_CHAIN(x), y = DECL_CHAIN(y))
        if (!declarations(x, y))
            return false;
    if (x || y || !declarations(DECL_RESULT(da), DECL_RESULT(db)))
        return false;
    if (!block_pair(ENTRY_BLOCK_PTR_FOR_FN(fa), ENTRY_BLOCK_PTR_FOR_FN(fb)))
        return false;
    std::vector<std::pair<basic_block, basic_block>> done;
    while (!work.empty()) {
        auto pair = work.back();
        work.pop_back();
        done.push_back(pair);
        if (!blocks(pair.first, pair.second))
            return false;
    }
    for (auto &pair : done)
        if (!phis(pair.first, pair.second))
            return false;
    return work.empty();
}

} // namespace

bool mv_equal_bodies(tree a, tree b)
{
    return comparison(a, b).equal();
}
