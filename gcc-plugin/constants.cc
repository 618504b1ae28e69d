/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * constants.cc: reads of run-time constants, `multiverse("constant")`.
 *
 * Through all of GIMPLE such a read is a read like any other.  Just before code is generated it
 * becomes an asm with one input, the variable, and no effect:
 *
 *     # multiverse constant size
 *     movl    size(%rip), %eax          8b 05 rel32          mov $imm32, %eax     b8 imm32
 *     movzbl  size(%rip), %eax          0f b6 05 rel32
 *     movq    size(%rip), %rax          48 8b 05 rel32       mov $imm64, %rax     48 b8 imm64
 *
 * so that the passes behind that may join, move and delete it as they may a load, but not make it an
 * operand of something else.  The last pass labels what has become of them, and puts prefixes (ds,
 * which means nothing) before a load that is shorter than the immediate would be: one instruction
 * stands for one at any time.
 *
 * A function that writes the variable or hands out its address has loads: what it has written it is
 * to read.
 */
#include "multiverse.h"

static const char marker[] = "# multiverse constant ";
static std::map<std::string, tree> constants; /* by symbol */

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

void mv_mark_reads(function *fun)
{
    std::vector<std::pair<gimple *, tree>> loads;
    basic_block bb;
    if (mv_is_large_model())
        return;
    FOR_EACH_BB_FN(bb, fun)
        for (gimple_stmt_iterator gsi = gsi_start_bb(bb); !gsi_end_p(gsi); gsi_next(&gsi))
            if (tree sw = mv_load_of_constant(gsi_stmt(gsi)))
                loads.push_back({gsi_stmt(gsi), sw});
    if (loads.empty())
        return;
    std::set<tree> changed = mv_changed_switches(fun);
    for (auto &load : loads)
        if (!changed.count(load.second) && !lookup_stmt_eh_lp(load.first))
            mark(load.first, load.second);
}

/* How many prefixes make a load of this address at least as long as the immediate, and never longer
 * than 8 bytes, of 8-byte constants 11; -1: there is none. */
static int prefixes(rtx address, unsigned width)
{
    if (GET_CODE(address) == SYMBOL_REF || GET_CODE(address) == CONST)
        return width == 8 ? 3 : 0;
    if (REG_P(address))
        return width == 8 ? 7 : width == 4 ? 4 : 3;
    return -1;
}

std::string mv_read_text(rtx_insn *insn, const std::string &label, tree *sw)
{
    rtx body = NONJUMP_INSN_P(insn) ? extract_asm_operands(PATTERN(insn)) : NULL_RTX;
    if (!body || strncmp(ASM_OPERANDS_TEMPLATE(body), marker, strlen(marker)) ||
        ASM_OPERANDS_INPUT_LENGTH(body) != 1 || !MEM_P(ASM_OPERANDS_INPUT(body, 0)))
        return "";
    const char *name = ASM_OPERANDS_TEMPLATE(body) + strlen(marker);
    auto found = constants.find(std::string(name, strcspn(name, "\n")));
    if (found == constants.end())
        return "";
    *sw = found->second;
    int n = prefixes(XEXP(ASM_OPERANDS_INPUT(body, 0), 0), mv_width(*sw));
    if (n < 0)
        return "";
    std::string text = label + ":";
    for (int i = 0; i < n; i++)
        text += i ? ", 0x3e" : "\n\t.byte 0x3e";
    return text;
}
