/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * callsites.cc: labels at calls of variation points, pads at their entries.
 *
 * The pass runs after all passes that copy, move or delete instructions: only branch shortening,
 * unwind notes and output follow.
 *
 * A call
 *         .p2align 3,,4                 the 5 bytes lie in one aligned word of 8,
 *     .Lmv_site7:                       so that one store can change them
 *         call    f
 *
 * and 3,,5 for the 6 bytes of `call *f@GOTPCREL(%rip)`. In a kernel cs prefixes (2e), which a
 * call ignores, fill up instead of a NOP: an instruction less.  After a tail call, int3s fill
 * what the assembler saved with a short jump.  It may also have moved the jump behind padding
 * (-mbranches-within-32B-boundaries): then there is nothing to fill, and a commit refuses the site.
 *
 * An entry
 *     f:  [endbr64] [patchable area]
 *         .p2align 3,,4
 *     .Lmv_pad3:
 *         nopl    0(%rax,%rax)          0f 1f 44 00 00, may become jmp variant
 *
 * The pad precedes the function's own code, so the bytes that change contain neither a call site
 * nor the target of a loop's branch.
 */
#include "multiverse.h"

static rtx_insn *raw_before(const std::string &text, rtx_insn *insn)
{
    rtx pattern = gen_rtx_ASM_INPUT_loc(VOIDmode, ggc_strdup(text.c_str()), BUILTINS_LOCATION);
    return emit_insn_before(pattern, insn);
}

static rtx_insn *raw_after(const std::string &text, rtx_insn *insn)
{
    rtx pattern = gen_rtx_ASM_INPUT_loc(VOIDmode, ggc_strdup(text.c_str()), BUILTINS_LOCATION);
    return emit_insn_after(pattern, insn);
}

/* ---- calls ------------------------------------------------------------------------ */

namespace {
struct target {
    rtx symbol;
    bool through_got; /* call *f@GOTPCREL(%rip) */
};
} // namespace

/* The callee of a call, if it is a symbol: named directly, or by a load of its GOT slot in the call
 * itself. */
static bool target_of(rtx_insn *insn, target &out)
{
    rtx call = get_call_rtx_from(insn);
    if (!call || !MEM_P(XEXP(call, 0)))
        return false;
    rtx address = XEXP(XEXP(call, 0), 0);
    out.through_got = false;
    if (MEM_P(address)) {
        address = XEXP(address, 0);
        if (GET_CODE(address) != CONST || GET_CODE(XEXP(address, 0)) != UNSPEC ||
            XINT(XEXP(address, 0), 1) != UNSPEC_GOTPCREL)
            return false;
        address = XVECEXP(XEXP(address, 0), 0, 0);
        out.through_got = true;
    }
    if (GET_CODE(address) != SYMBOL_REF)
        return false;
    out.symbol = address;
    return true;
}

/* The condition by which the machine description writes a direct call through the GOT
 * (ix86_nopic_noplt_attribute_p). */
static bool written_through_got(rtx symbol)
{
    if (flag_pic || SYMBOL_REF_LOCAL_P(symbol))
        return false;
    tree decl = SYMBOL_REF_DECL(symbol);
    return !flag_plt || (decl && lookup_attribute("noplt", DECL_ATTRIBUTES(decl)));
}

static bool has_prefix_or_thunk(rtx_insn *insn, const target &t)
{
    return find_reg_note(insn, REG_CALL_NOCF_CHECK, NULL_RTX) ||
           (t.through_got && ix86_indirect_branch != indirect_branch_keep);
}

/* SHF_LINK_ORDER names the code's section by a symbol in it, and the assembler starts a new
 * descriptor section for every other symbol.  So all functions of a section name the first label in
 * it.  Functions in two sections do not: which comes first is decided later. */
static std::string anchor(const std::string &label)
{
    static std::unordered_map<void *, std::string> first;
    if (crtl->has_bb_partition)
        return label;
    bool cold = first_function_block_is_cold; /* the previous function's */
    first_function_block_is_cold = false;
    section *where = function_section(current_function_decl);
    first_function_block_is_cold = cold;
    return first.insert({where, label}).first->second;
}

static void record_call(rtx_insn *insn)
{
    static unsigned count;
    target t;
    if (!target_of(insn, t))
        return;
    tree decl = SYMBOL_REF_DECL(t.symbol);
    if (!decl || !mv_is_function(decl))
        return;
    t.through_got |= written_through_got(t.symbol);
    if (has_prefix_or_thunk(insn, t))
        return;
    std::string label = ".Lmv_site" + std::to_string(count++);
    std::string fill = mv_is_kernel_model() ? "0x2e" : "";
    std::string align = ".p2align 3," + fill + (t.through_got ? ",5\n" : ",4\n");
    raw_before(align + label + ":\n" + mv_callsite_text(label, decl, anchor(label)), insn);
    if (SIBLING_CALL_P(insn) && !t.through_got) {
        std::string size = "(" + label + "end-" + label + ")";
        raw_after(label + "end:\n\t.skip -(" + size + " < 5) * (5-" + size + "), 0xcc", insn); /* true is -1 */
    }
}

/* ---- reads of constants ---------------------------------------------------------------- */

/* `seen`: the labels of the constants' records that the function already has. */
static void record_read(rtx_insn *insn, std::map<tree, std::string> &seen)
{
    static unsigned count;
    tree sw;
    std::string label = ".Lmv_read" + std::to_string(count), text = mv_read_text(insn, label, &sw), records;
    if (text.empty())
        return;
    std::string &record = seen[sw];
    if (record.empty()) {
        record = ".Lmv_constant" + std::to_string(count);
        records = mv_constant_text(sw, record, false, anchor(label));
    }
    count++;
    raw_before(records + mv_callsite_text(label, sw, anchor(label), record) + text, insn);
}

/* Records the constants with loads. */
static void record_loads()
{
    static unsigned count;
    for (tree sw : mv_unrecorded()) {
        std::string number = std::to_string(count++), label = ".Lmv_loads" + number;
        raw_after(label + ":\n" + mv_constant_text(sw, ".Lmv_loaded" + number, true, anchor(label)),
                  get_last_insn());
    }
}

/* ---- inline calls ------------------------------------------------------------------------ */

static void record_inline(rtx_insn *insn)
{
    static unsigned count;
    if (!mv_is_inline_site(insn))
        return;
    std::string label = ".Lmv_inline" + std::to_string(count++);
    raw_before(".p2align 3,,4\n" + label + ":\n" + mv_inline_text(insn, label, anchor(label)), insn);
}

/* ---- entries ----------------------------------------------------------------------- */

static bool is_unspec_volatile(rtx_insn *insn, int code)
{
    return NONJUMP_INSN_P(insn) && GET_CODE(PATTERN(insn)) == UNSPEC_VOLATILE &&
           XINT(PATTERN(insn), 1) == code;
}

/* The last instruction that has to stay before the pad, or NULL. */
static rtx_insn *last_of_entry()
{
    rtx_insn *last = nullptr;
    for (rtx_insn *insn = get_insns(); insn; insn = NEXT_INSN(insn)) {
        if (NOTE_P(insn))
            continue;
        if (is_unspec_volatile(insn, UNSPECV_NOP_ENDBR) ||
            is_unspec_volatile(insn, UNSPECV_PATCHABLE_AREA))
            last = insn;
        else
            break;
    }
    return last;
}

static void pad_entry(tree fndecl)
{
    std::string pad = mv_label("pad", fndecl);
    std::string text = ".p2align 3,,4\n" + pad + ":\n\t.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" +
                       mv_function_text(fndecl, mv_find_record(fndecl), pad, anchor(pad));
    if (rtx_insn *last = last_of_entry())
        raw_after(text, last);
    else
        raw_before(text, get_insns());
}

/* ---- sizes of variants ---------------------------------------------------------------- */

static void measure(tree variant)
{
    std::string size = mv_label("size", variant);
    std::string end = mv_label("stop", variant);
    if (crtl->has_bb_partition)
        raw_after("\t.set " + size + ", 0", get_last_insn());
    else
        raw_after(end + ":\n\t.set " + size + ", " + end + "-" + mv_symbol(variant),
                  get_last_insn());
}

void mv_record_sites(function *fun)
{
    if (mv_is_large_model())
        return;
    std::map<tree, std::string> seen;
    bool is_init = mv_is_init_code(fun->decl);
    for (rtx_insn *insn = get_insns(), *next; insn; insn = next) {
        next = NEXT_INSN(insn);
        if (CALL_P(insn) && !is_init)
            record_call(insn);
        else if (JUMP_P(insn))
            record_inline(insn);
        else
            record_read(insn, seen);
    }
    record_loads();
    if (mv_is_function(fun->decl) && !is_init)
        pad_entry(fun->decl);
    if (lookup_attribute(MV_ATTR_VARIANT, DECL_ATTRIBUTES(fun->decl)))
        measure(fun->decl);
}
