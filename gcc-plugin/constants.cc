/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * constants.cc: reads of run-time constants, `multiverse("constant")`.
 *
 * In GIMPLE such a read is an ordinary read.  Just before code generation it becomes an asm with
 * one input, the variable, and no effect:
 *
 *     # multiverse constant size
 *     movl    size(%rip), %eax          8b 05 rel32          mov $imm32, %eax     b8 imm32
 *     movzbl  size(%rip), %eax          0f b6 05 rel32
 *     movq    size(%rip), %rax          48 8b 05 rel32       mov $imm64, %rax     48 b8 imm64
 *
 * So later passes may join, move and delete it like a load, but not make it an operand of another
 * instruction.  The last pass labels the remaining asms, and puts prefixes (ds, without effect)
 * before a load that is shorter than the immediate's `mov`, so that one instruction replaces one.
 *
 * An earlier pass may have put the variable's address into a register, `8(%rbp)`.  If the symbol
 * reaches, it is restored.  A variable of another object is addressed by a register only.
 *
 * A function that writes the variable or takes its address has loads, because it must read what it
 * has written.  The user is warned of each read that stays a load, and a record tells the run time.
 */
#include "multiverse.h"

static const char marker[] = "# multiverse constant ";
static std::map<std::string, tree> constants; /* by symbol */
static std::set<tree> unrecorded;             /* constants that the present function loads */

static std::string instruction(tree sw)
{
    const char *sign = mv_is_signed(sw) ? "s" : "z";
    switch (mv_width(sw)) {
    case 1:
        return std::string("{mov") + sign + "bl\t%1, %k0|mov" + sign + "x\t%k0, %1}";
    case 2:
        return std::string("{mov") + sign + "wl\t%1, %k0|mov" + sign + "x\t%k0, %1}";
    case 4:
        return "{movl\t%1, %k0|mov\t%k0, %1}";
    }
    return "{movq\t%1, %q0|mov\t%q0, %1}";
}

static tree operand(const char *constraint, tree value)
{
    return build_tree_list(build_tree_list(NULL_TREE, build_string(strlen(constraint) + 1, constraint)),
                           value);
}

static void mark(gimple *load, tree sw)
{
    tree lhs = gimple_get_lhs(load);
    vec<tree, va_gc> *inputs = nullptr, *outputs = nullptr;
    vec_safe_push(outputs, operand("=r", lhs));
    vec_safe_push(inputs, operand("m", mv_operand_of(sw)));
    std::string text = marker + mv_symbol(sw) + "\n\t" + instruction(sw);
    gasm *stmt = gimple_build_asm_vec(ggc_strdup(text.c_str()), inputs, outputs, nullptr, nullptr);
    bool atomic = is_gimple_call(load);
    gimple_asm_set_volatile(stmt, atomic);
    gimple_set_location(stmt, gimple_location(load));
    gimple_set_vuse(stmt, gimple_vuse(load));
    gimple_stmt_iterator gsi = gsi_for_stmt(load);
    if (atomic) {
        unlink_stmt_vdef(load);
        if (gimple_vdef(load) && TREE_CODE(gimple_vdef(load)) == SSA_NAME)
            release_ssa_name(gimple_vdef(load));
        gimple_call_set_lhs(as_a<gcall *>(load), NULL_TREE);
    }
    gsi_replace(&gsi, stmt, true);
    SSA_NAME_DEF_STMT(lhs) = stmt;
    constants[mv_symbol(sw)] = sw;
}

/* ---- reads that stay loads ------------------------------------------------------------ */

/* Once for each place: the read may also be in variants and inlined copies. */
static void leave(location_t at, tree sw, const char *why)
{
    static std::set<location_t> warned;
    unrecorded.insert(sw);
    if (at == UNKNOWN_LOCATION)
        at = DECL_SOURCE_LOCATION(current_function_decl);
    if (warned.insert(LOCATION_LOCUS(at)).second)
        warning_at(at, OPT_Wattributes, "this read of constant %qD stays a load: %s", sw, why);
}

/* A read of more or less than a constant: of a part, or of the whole structure. */
static bool visit_load(gimple *stmt, tree, tree ref, void *)
{
    if (!TREE_THIS_VOLATILE(ref))
        for (tree sw : mv_switches_at(ref))
            if (mv_is_constant(sw))
                leave(gimple_location(stmt), sw, "it reads a part of it, or more");
    mv_warn_of_pointer(stmt, ref, true);
    return false;
}

void mv_mark_reads(function *fun)
{
    std::vector<std::pair<gimple *, tree>> loads;
    basic_block bb;
    unrecorded.clear();
    if (mv_is_init_code(fun->decl))
        return;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi))
            if (tree sw = mv_load_of_constant(gsi_stmt(gsi)))
                loads.push_back({gsi_stmt(gsi), sw});
            else if (!is_gimple_debug(gsi_stmt(gsi)))
                walk_stmt_load_store_addr_ops(gsi_stmt(gsi), nullptr, visit_load, nullptr, nullptr);
    if (loads.empty())
        return;
    std::set<tree> changed = mv_changed_switches(fun);
    for (auto &load : loads)
        if (mv_is_large_model())
            leave(gimple_location(load.first), load.second, "the large code model has no descriptors");
        else if (changed.count(load.second))
            leave(gimple_location(load.first), load.second,
                  "the function writes it, or hands out its address");
        else if (lookup_stmt_eh_lp(load.first))
            leave(gimple_location(load.first), load.second, "it may throw");
        else
            mark(load.first, load.second);
}

const std::set<tree> &mv_unrecorded()
{
    return unrecorded;
}

/* ---- sites ---------------------------------------------------------------------------- */

/* Restores the symbol in the address, if code may name it. */
static rtx settle_address(rtx operands, tree sw)
{
    HOST_WIDE_INT offset;
    rtx memory = ASM_OPERANDS_INPUT(operands, 0), variable = DECL_RTL(mv_variable_of(sw, &offset));
    rtx address = plus_constant(Pmode, XEXP(variable, 0), offset);
    if (!memory_address_addr_space_p(GET_MODE(memory), address, MEM_ADDR_SPACE(memory)))
        return XEXP(memory, 0);
    ASM_OPERANDS_INPUT(operands, 0) = replace_equiv_address_nv(memory, address);
    return address;
}

/* The number of prefixes that make a load of this address at least as long as the immediate's
 * `mov`; -1: impossible.  A register from r8 on makes both longer. */
static int prefixes(rtx address, unsigned width)
{
    int displacement = 0, length, immediate = width == 8 ? 10 : 5;
    if (GET_CODE(address) == SYMBOL_REF || GET_CODE(address) == CONST) {
        displacement = 4;
    } else if (GET_CODE(address) == PLUS && REG_P(XEXP(address, 0)) && CONST_INT_P(XEXP(address, 1))) {
        HOST_WIDE_INT n = INTVAL(XEXP(address, 1));
        displacement = n == (int8_t)n ? 1 : 4;
    } else if (!REG_P(address)) {
        return -1;
    }
    length = (width == 4 ? 1 : 2) + 1 + displacement; /* 8b, 0f b6, REX.W 8b; ModRM */
    return std::max(immediate - length, 0);
}

std::string mv_read_text(rtx_insn *insn, const std::string &label, tree *sw)
{
    rtx body = NONJUMP_INSN_P(insn) ? extract_asm_operands(PATTERN(insn)) : NULL_RTX;
    if (!body || strncmp(ASM_OPERANDS_TEMPLATE(body), marker, strlen(marker)))
        return "";
    const char *name = ASM_OPERANDS_TEMPLATE(body) + strlen(marker);
    auto found = constants.find(std::string(name, strcspn(name, "\n")));
    if (found == constants.end())
        return "";
    *sw = found->second;
    int n = prefixes(settle_address(body, *sw), mv_width(*sw));
    if (n < 0) {
        leave(INSN_LOCATION(insn), *sw, "its address has a form that no site has");
        return "";
    }
    /* A kernel changes one word at most: up to 7 bytes, aligned by prefixes. */
    std::string align = mv_is_kernel_model() && mv_width(*sw) < 8 ? ".p2align 3,0x2e,6\n" : "", text = align + label + ":";
    for (int i = 0; i < n; i++)
        text += i ? ", 0x3e" : "\n\t.byte 0x3e";
    return text;
}
