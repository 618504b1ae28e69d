/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * descriptors.cc: the text of the descriptors (include/mvld/descriptor.h).
 *
 * Records are written from inside the code that they describe, with .pushsection.  Their sections
 * carry SHF_LINK_ORDER ("o"), so they live and die with the code's section under --gc-sections, and
 * belong to its COMDAT group ("?"), if any.  Records without code (switches, the note) are written
 * at the end of the unit.
 *
 * `body` names this unit's own definition by a local label, which another definition of the same
 * name cannot replace.
 *
 * A kernel (-mcmodel=kernel) has no GOT: everything is named by its distance, also from a module to
 * the kernel and to other modules.  It has no notes: its linker scripts define the tables'
 * addresses.  `ld -r` merges its sections, so they are not linked to others.
 */
#include "multiverse.h"

static bool note_needed;
static std::vector<std::pair<tree, tree>> stubs; /* stub, pointer */
static std::set<unsigned> stub_seen;

static std::string format(const char *fmt, ...) ATTRIBUTE_PRINTF_1;
static std::string format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    std::string s = text;
    free(text);
    return s;
}

bool mv_is_large_model()
{
    return ix86_cmodel == CM_LARGE || ix86_cmodel == CM_LARGE_PIC;
}

bool mv_is_kernel_model()
{
    return ix86_cmodel == CM_KERNEL;
}

bool mv_is_init_code(tree fndecl)
{
    const char *name = mv_is_kernel_model() ? DECL_SECTION_NAME(fndecl) : nullptr;
    if (!name)
        return false;
    for (const char *prefix : {".init.", ".exit.", ".meminit.", ".memexit.", ".head."})
        if (!strncmp(name, prefix, strlen(prefix)))
            return true;
    return false;
}

/* The head of a table's part for the section of `anchor`, which is discarded with that section. */
static std::string push_table(const char *table, const std::string &anchor)
{
    if (mv_is_kernel_model())
        return format("\t.pushsection multiverse_%s,\"a\",@progbits\n", table);
    return format("\t.pushsection multiverse_%s,\"ao?\",@progbits,", table) + anchor + "\n";
}

void mv_note_needed()
{
    note_needed = true;
}

std::string mv_label(const char *kind, tree decl)
{
    static std::unordered_map<unsigned, unsigned> numbers;
    unsigned number = numbers.insert({DECL_UID(decl), numbers.size()}).first->second;
    return format(".Lmv_%s%u", kind, number);
}

static std::string quoted(const std::string &s)
{
    std::string out = "\"";
    for (char c : s)
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if ((unsigned char)c < ' ')
            out += format("\\%03o", (unsigned char)c);
        else
            out += c;
    return out + "\"";
}

/* Whether the unit may refer to it by its distance, as its code does; a symbol of another object
 * needs a GOT slot.  For a function this must be certain: a distance to a function of another
 * object would give that a canonical PLT entry in this one. */
static bool is_near(tree decl)
{
    HOST_WIDE_INT offset;
    decl = mv_variable_of(decl, &offset);
    if (mv_is_kernel_model())
        return true;
    if (!targetm.binds_local_p(decl))
        return false;
    if (VAR_P(decl) || !TREE_PUBLIC(decl) || DECL_VISIBILITY(decl) != VISIBILITY_DEFAULT)
        return true;
    cgraph_node *node = cgraph_node::get(decl);
    return node && node->definition;
}

static std::string reference(tree decl)
{
    HOST_WIDE_INT offset;
    if (is_near(decl))
        return mv_symbol(decl) + "-.";
    return mv_symbol(mv_variable_of(decl, &offset)) + "@GOTPCREL";
}

/* The offset of a member from the address in the slot. */
static std::string slot_offset(tree sw)
{
    HOST_WIDE_INT offset;
    mv_variable_of(sw, &offset);
    return std::to_string(is_near(sw) ? 0 : offset);
}

static unsigned switch_flags(tree sw)
{
    return (mv_is_signed(sw) ? 1 : 0) | (mv_is_tracked(sw) ? 2 : 0) | (mv_is_bool(sw) ? 8 : 0) |
           (mv_is_constant(sw) ? 16 : 0) | (is_near(sw) ? 32 : 0);
}

/* A record is its size, then `inner`, padded to 8 bytes. */
static std::string sized_record(const std::string &inner)
{
    static unsigned count;
    unsigned n = count++;
    return format("\t.balign 8\n.Lmv_record%u:\n\t.long .Lmv_end%u-.Lmv_record%u\n", n, n, n) +
           inner + format("\t.balign 8\n.Lmv_end%u:\n", n);
}

static std::string switch_text(tree sw, unsigned extra_flags)
{
    std::string s;
    s += format("\t.byte %u, %u\n\t.value 16\n", mv_width(sw), switch_flags(sw) | extra_flags);
    s += "\t.long " + reference(sw) + ", " + slot_offset(sw) + "\n";
    s += "\t.asciz " + quoted(mv_display_name(sw)) + "\n";
    return sized_record(s);
}

/* ---- variation points ----------------------------------------------------------- */

/* A guard that contains all values of the type is redundant, but kept: a variant always names its
 * switches. */
static unsigned count_guards(const mv_record::variant &v)
{
    unsigned n = 0;
    for (const mv_range &r : v.ranges)
        n += !r.any;
    return n;
}

static std::string guards_text(const mv_record &record)
{
    std::string s;
    for (const auto &v : record.variants)
        for (size_t i = 0; i < v.ranges.size(); i++) {
            const mv_range &r = v.ranges[i];
            tree sw = record.switches[i];
            if (r.any)
                continue;
            s += "\t.long " + reference(sw) + "\n";
            s += format("\t.byte %u, %u\n\t.value %s\n", mv_width(sw), switch_flags(sw),
                        slot_offset(sw).c_str());
            s += format("\t.quad %" PRId64 ", %" PRId64 "\n", r.low, r.high);
        }
    return s;
}

static bool is_here(tree fndecl)
{
    cgraph_node *node = cgraph_node::get(fndecl);
    return node && !node->in_other_partition;
}

/* `leads`: the field `pointer`, and the flags that describe it. */
static std::string record_text(const std::string &name, const std::string &body,
                               const std::string &pad, unsigned flags, const std::string &leads,
                               const mv_record *record)
{
    static const mv_record none;
    if (!record)
        record = &none;
    unsigned guards = 0, variants = record->variants.size();
    for (const auto &v : record->variants)
        guards += count_guards(v);
    unsigned at = 24 + 16 * variants + 24 * guards; /* of the names */

    std::string s;
    s += format("\t.value %u, %u, %u, %u\n", flags, at, variants, guards);
    s += "\t.long " + body + "-., " + pad + "-.\n\t.long " + leads + "\n";
    unsigned name_at = at + name.size() + 1, first = 0;
    for (const auto &v : record->variants) {
        std::string symbol = v.decl ? mv_symbol(v.decl) : "";
        unsigned n = count_guards(v);
        s += "\t.long " + (v.decl ? symbol : v.place) + "-.\n";
        s += "\t.long " + (v.decl && is_here(v.decl) ? mv_label("size", v.decl) : "0") + "\n";
        s += format("\t.value %u, %u, %u, 0\n", first, n, v.decl && name_at <= 0xffff ? name_at : 0);
        name_at += symbol.size() + 1;
        first += n;
    }
    s += guards_text(*record);
    s += "\t.asciz " + quoted(name) + "\n";
    for (const auto &v : record->variants)
        if (v.decl)
            s += "\t.asciz " + quoted(mv_symbol(v.decl)) + "\n";
    return sized_record(s);
}

std::string mv_function_text(tree fndecl, const mv_record *record, const std::string &pad,
                             const std::string &anchor)
{
    std::string body = mv_label("body", fndecl);
    std::string s = "\t.set " + body + ", " + mv_symbol(fndecl) + "\n";
    s += push_table("functions", anchor);
    s += record_text(mv_display_name(fndecl), body, pad, 0, "0", record);
    s += "\t.popsection\n";
    if (record)
        s += mv_switches_text(record->switches, anchor);
    mv_note_needed();
    return s;
}

std::string mv_switches_text(const std::vector<tree> &switches, const std::string &anchor)
{
    std::string s;
    for (tree sw : switches)
        s += switch_text(sw, 0);
    return s.empty() ? s : push_table("switches", anchor) + s +
                               "\t.popsection\n";
}

std::string mv_constant_text(tree sw, const std::string &label, bool unrecorded, const std::string &anchor)
{
    mv_note_needed();
    return push_table("switches", anchor) + "\t.balign 8\n" + label +
           ":\n" + switch_text(sw, unrecorded ? 64 : 0) + "\t.popsection\n";
}

std::string mv_inline_record_text(tree fndecl, const mv_record &record, const std::string &generic,
                                  const std::string &site, bool branches, const std::string &anchor)
{
    return push_table("functions", anchor) +
           record_text(mv_display_name(fndecl), generic, site, (is_near(fndecl) ? 6 : 4) | (branches ? 8 : 0),
                       reference(fndecl), &record) +
           "\t.popsection\n";
}

/* ---- call sites -------------------------------------------------------------------- */

/* No slot holds the address of another object's member: its record gives slot and offset. */
std::string mv_callsite_text(const std::string &label, tree what, const std::string &anchor,
                             const std::string &record)
{
    mv_note_needed();
    std::string named = slot_offset(what) == "0" ? reference(what) : record + "-.";
    return push_table("callsites", anchor) + "\t.balign 4\n\t.long " + label + "-., " + named + "\n\t.popsection\n";
}

/* ---- stubs of function pointers ------------------------------------------------------ */

void mv_use_stub(tree stub, tree pointer)
{
    if (stub_seen.insert(DECL_UID(stub)).second)
        stubs.push_back({stub, pointer});
}

/* The stub jumps to the pointer's target and changes nothing but %r11:
 *
 *   0f 1f 44 00 00          nopl 0(%rax,%rax)           the pad
 *   ff 25 rel32             jmp *pointer(%rip)          when the pointer is ours
 *   4c 8b 1d rel32          mov pointer@GOTPCREL(%rip), %r11
 *   41 ff 23                jmp *(%r11)
 */
static std::string stub_text(tree stub, tree pointer)
{
    std::string name = mv_symbol(stub), variable = mv_symbol(pointer);
    bool comdat = TREE_PUBLIC(pointer);
    std::string pad = mv_label("pad", stub);
    std::string s = "\t.section .text." + name + ",\"ax" + (comdat ? "G" : "") + "\",@progbits";
    s += comdat ? "," + name + ",comdat\n" : "\n";
    if (comdat)
        s += "\t.weak " + name + "\n\t.hidden " + name + "\n";
    s += "\t.balign 16\n\t.type " + name + ", @function\n" + name + ":\n";
    if (dwarf2out_do_cfi_asm())
        s += "\t.cfi_startproc\n";
    s += pad + ":\n\t.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n";
    if (targetm.binds_local_p(pointer))
        s += "\t.byte 0xff, 0x25\n\t.long " + variable + "-.-4\n";
    else
        s += "\t.byte 0x4c, 0x8b, 0x1d\n\t.long " + variable +
             "@GOTPCREL-4\n\t.byte 0x41, 0xff, 0x23\n";
    if (dwarf2out_do_cfi_asm())
        s += "\t.cfi_endproc\n";
    s += "\t.size " + name + ", .-" + name + "\n";
    s += push_table("functions", pad);
    s += record_text(mv_display_name(pointer), pad, pad, is_near(pointer) ? 3 : 1, reference(pointer),
                     nullptr);
    s += "\t.popsection\n";
    return s;
}

/* ---- end of the unit -------------------------------------------------------------------- */

/* Every unit has all three tables, if only empty ones: a shared object must not refer to a hidden
 * __start_ symbol that is undefined, weak or not.  Records without code are linked to the note,
 * which no linker drops, because all input sections of a table must have the same flags, or mold
 * makes two tables. */
static std::string note_text()
{
    std::string s = "\t.section .note.multiverse,\"a\",@note\n\t.balign 4\n.Lmv_note:\n"
                    "\t.long 11, 28, 1\n\t.asciz \"Multiverse\"\n\t.balign 4\n\t.long 1\n";
    for (const char *table : {"functions", "callsites", "switches"})
        for (const char *end : {"start", "stop"}) {
            std::string symbol = format("__%s_multiverse_%s", end, table);
            s += "\t.long " + symbol + "-.\n\t.weak " + symbol + "\n\t.hidden " + symbol + "\n";
        }
    for (const char *table : {"functions", "callsites", "switches"})
        s += format("\t.section multiverse_%s,\"ao\",@progbits,.Lmv_note\n\t.balign %d\n", table,
                    strcmp(table, "callsites") ? 8 : 4);
    return s;
}

static std::string defined_switch(varpool_node *node, tree sw)
{
    std::string s = "\t.section multiverse_switches,\"a";
    if (mv_is_kernel_model())
        return s + "\",@progbits\n" + switch_text(sw, 4);
    tree group = node->get_comdat_group();
    if (group)
        s += std::string("Go\",@progbits,.Lmv_note,") + IDENTIFIER_POINTER(group) + ",comdat\n";
    else
        s += "o\",@progbits,.Lmv_note\n";
    return s + switch_text(sw, 4);
}

void mv_finish_unit()
{
    if (seen_error() || !asm_out_file || flag_wpa || mv_is_large_model() ||
        (flag_generate_lto && !flag_fat_lto_objects))
        return;
    std::string s;
    varpool_node *node;
    FOR_EACH_VARIABLE(node) {
        if (!node->definition || node->in_other_partition || node->alias ||
            DECL_EXTERNAL(node->decl) || !TREE_ASM_WRITTEN(node->decl))
            continue;
        std::vector<tree> switches = mv_members(node->decl);
        if (mv_is_switch(node->decl))
            switches.push_back(node->decl);
        for (tree sw : switches)
            s += defined_switch(node, sw);
        note_needed |= !switches.empty();
    }
    FOR_EACH_VARIABLE(node)
        if (mv_is_pointer(node->decl) && node->definition && !node->in_other_partition &&
            !node->alias && !DECL_EXTERNAL(node->decl) && TREE_ASM_WRITTEN(node->decl))
            mv_stub_of(node->decl);
    for (auto &stub : stubs) {
        s += stub_text(stub.first, stub.second);
        note_needed = true;
    }
    if (!note_needed)
        return;
    if (!mv_is_kernel_model())
        s += note_text();
    fputs(s.c_str(), asm_out_file);
}
