/* SPDX-License-Identifier: MIT
 *
 * records.cc: entries and descriptors (include/mvld/descriptor.h) of a unit.
 *
 * A pass cannot insert instructions at the entry, so the pad is LLVM's prologue data: bytes at the
 * function's beginning.  They contain the endbr64, too; the one that the back end adds follows.
 *
 *     f:  [endbr64; nopl 0(%rax)]
 *         nopl    0(%rax,%rax)          0f 1f 44 00 00, may become jmp variant
 *
 * Descriptors are an asm of the module, which is assembled before all code.  Each of our functions
 * has its own section, whose beginning that asm labels.  Another definition of the same name cannot
 * replace such a local label.  The function's end is that of subsection 0.
 */
#include "multiverse.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <algorithm>

using namespace llvm;

static const uint8_t pad_bytes[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
static const uint8_t endbr_bytes[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x40, 0x00};

std::string mv_entry_problem(const Function &function)
{
    if (function.hasSection() || function.hasFnAttribute("implicit-section-name"))
        return "it is in a section of its own";
    if (function.hasPrologueData() || function.hasPrefixData() ||
        function.hasFnAttribute("patchable-function") ||
        function.hasFnAttribute("patchable-function-entry") ||
        function.hasFnAttribute("patchable-function-prefix"))
        return "something else is patched at its entry";
    return "";
}

namespace {

class writer {
public:
    writer(Module &module) : out(text), module(module)
    {
        const Metadata *flag = module.getModuleFlag("cf-protection-branch");
        has_endbr = flag && !mdconst::extract<ConstantInt>(flag)->isZero();
    }
    void function(const mv_record &record);
    void defined(GlobalVariable &variable);
    void finish();

private:
    std::string text;
    raw_string_ostream out;
    Module &module;
    bool has_endbr;
    unsigned n_places = 0;
    std::vector<GlobalValue *> used; /* used by descriptors only, as LLVM sees it */
    std::map<const Function *, unsigned> places;

    void function_record(const mv_record &record);
    unsigned begin_place(Function &function);
    void body(Function &variant);
    void pad(Function &function);
};

} // namespace

/* ---- text --------------------------------------------------------------------------- */

static std::string quoted(const std::string &s)
{
    std::string text = "\"";
    raw_string_ostream out(text);
    for (unsigned char c : s)
        if (c == '"' || c == '\\')
            out << '\\' << c;
        else if (c < ' ')
            out << format("\\%03o", c);
        else
            out << c;
    return out.str() + '"';
}

/* A variable of another object needs a GOT slot. */
static std::string reference(const GlobalVariable &variable, uint64_t offset)
{
    std::string symbol = quoted(mv_symbol(variable));
    return variable.isDSOLocal() ? symbol + "+" + std::to_string(offset) + "-." : symbol + "@GOTPCREL";
}

static unsigned flags_of(const GlobalVariable &variable, const mv_switch &sw)
{
    return (sw.is_signed ? 1 : 0) | (sw.is_tracked ? 2 : 0) | (sw.is_bool ? 8 : 0) |
           (sw.is_constant ? 16 : 0) | (variable.isDSOLocal() ? 32 : 0);
}

std::string mv_switch_text(const GlobalVariable &variable, const mv_switch &sw, unsigned flags)
{
    std::string text;
    raw_string_ostream out(text);
    out << "\t.balign 8\n\t.long " << alignTo(16 + sw.name.size() + 1, 8) << "\n\t.byte " << sw.width << ", "
        << (flags_of(variable, sw) | flags) << "\n\t.value 16\n\t.long " << reference(variable, sw.offset) << ", "
        << (variable.isDSOLocal() ? 0 : sw.offset) << "\n\t.asciz " << quoted(sw.name) << "\n\t.balign 8\n";
    return out.str();
}

/* ---- code ----------------------------------------------------------------------------- */

/* Gives the function a section, keeps its subsection open, and labels it. */
unsigned writer::begin_place(Function &function)
{
    std::string name = ".text." + mv_symbol(function);
    unsigned n = n_places++;
    function.setSection(name);
    used.push_back(&function);
    out << "\t.pushsection " << quoted(name);
    if (function.hasComdat())
        out << ",\"axG\",@progbits," << quoted(function.getComdat()->getName().str()) << ",comdat\n";
    else
        out << ",\"ax\",@progbits\n";
    out << ".Lmv_at" << n << ":\n";
    return n;
}

void writer::body(Function &variant)
{
    if (places.count(&variant))
        return;
    unsigned n = places[&variant] = begin_place(variant);
    out << "\t.subsection 1\n.Lmv_stop" << n << ":\n\t.popsection\n";
}

void writer::pad(Function &function)
{
    std::vector<uint8_t> bytes(pad_bytes, std::end(pad_bytes));
    if (has_endbr)
        bytes.insert(bytes.begin(), endbr_bytes, std::end(endbr_bytes));
    function.setPrologueData(ConstantDataArray::get(module.getContext(), bytes));
    function.setAlignment(std::max(function.getAlign().valueOrOne(), Align(16)));
}

static unsigned count_guards(const mv_variant &v)
{
    return std::count_if(v.ranges.begin(), v.ranges.end(), [](const mv_range &r) { return !r.any; });
}

void writer::function_record(const mv_record &record)
{
    unsigned guards = 0, first = 0, place = places[record.generic];
    const std::string &name = mv_point_of(*record.generic)->name;
    for (const mv_variant &v : record.variants)
        guards += count_guards(v);
    unsigned at = 24 + 16 * record.variants.size() + 24 * guards; /* of the names */
    unsigned name_at = at + name.size() + 1;
    out << "\t.balign 8\n.Lmv_record" << place << ":\n\t.long .Lmv_end" << place << "-.Lmv_record" << place
        << "\n\t.value 0, " << at << ", " << record.variants.size() << ", " << guards << "\n\t.long .Lmv_body"
        << place << "-., .Lmv_body" << place << "+" << (has_endbr ? sizeof endbr_bytes : 0) << "-., 0\n";
    for (const mv_variant &v : record.variants) {
        unsigned there = places[v.body];
        out << "\t.long .Lmv_at" << there << "-., .Lmv_stop" << there << "-.Lmv_at" << there << "\n\t.value "
            << first << ", " << count_guards(v) << ", " << (name_at <= 0xffff ? name_at : 0) << ", 0\n";
        name_at += mv_symbol(*v.body).size() + 1;
        first += count_guards(v);
    }
    for (const mv_variant &v : record.variants)
        for (size_t i = 0; i < v.ranges.size(); i++) {
            const GlobalVariable &sw = *record.switches[i];
            if (v.ranges[i].any)
                continue;
            out << "\t.long " << reference(sw, 0) << "\n\t.byte " << mv_switch_of(&sw)->width << ", "
                << flags_of(sw, *mv_switch_of(&sw)) << "\n\t.value 0\n\t.quad " << v.ranges[i].low << ", " << v.ranges[i].high << "\n";
        }
    out << "\t.asciz " << quoted(name);
    for (const mv_variant &v : record.variants)
        out << "\n\t.asciz " << quoted(mv_symbol(*v.body));
    out << "\n\t.balign 8\n.Lmv_end" << place << ":\n";
}

void writer::function(const mv_record &record)
{
    Function &generic = *record.generic;
    for (const mv_variant &v : record.variants)
        body(*v.body);
    pad(generic);
    unsigned n = places[&generic] = begin_place(generic);
    out << "\t.set .Lmv_body" << n << ", .Lmv_at" << n << "+(" << quoted(mv_symbol(generic)) << "-.Lmv_at" << n << ")\n\t.pushsection multiverse_functions,\"ao?\",@progbits,.Lmv_at" << n << "\n";
    function_record(record);
    out << "\t.popsection\n";
    if (!record.switches.empty()) {
        out << "\t.pushsection multiverse_switches,\"ao?\",@progbits,.Lmv_at" << n << "\n";
        for (const GlobalVariable *sw : record.switches)
            out << mv_switch_text(*sw, *mv_switch_of(sw), 0);
        out << "\t.popsection\n";
    }
    out << "\t.popsection\n";
}

/* ---- what belongs to no code -------------------------------------------------------------- */

void writer::defined(GlobalVariable &variable)
{
    std::vector<mv_switch> switches = mv_constants_of(variable);
    if (const mv_switch *sw = mv_switch_of(&variable))
        switches.push_back(*sw);
    if (switches.empty())
        return;
    used.push_back(&variable);
    out << "\t.pushsection multiverse_switches,\"ao\",@progbits,.Lmv_note\n";
    for (const mv_switch &sw : switches)
        out << mv_switch_text(variable, sw, 4);
    out << "\t.popsection\n";
}

/* Every unit has all three tables, if only empty ones: a shared object must not refer to a hidden
 * __start_ symbol that is undefined, weak or not. */
void mv_write_note(Module &module)
{
    std::string text;
    raw_string_ostream out(text);
    if (module.getModuleInlineAsm().find(".Lmv_note:") != std::string::npos)
        return;
    out << "\t.pushsection .note.multiverse,\"a\",@note\n\t.balign 4\n.Lmv_note:\n"
           "\t.long 11, 28, 1\n\t.asciz \"Multiverse\"\n\t.balign 4\n\t.long 1\n";
    for (const char *table : {"functions", "callsites", "switches"})
        for (const char *end : {"start", "stop"}) {
            std::string symbol = std::string("__") + end + "_multiverse_" + table;
            out << "\t.long " << symbol << "-.\n\t.weak " << symbol << "\n\t.hidden " << symbol << "\n";
        }
    out << "\t.popsection\n";
    for (const char *table : {"functions", "callsites", "switches"})
        out << "\t.pushsection multiverse_" << table << ",\"ao\",@progbits,.Lmv_note\n\t.balign "
            << (table[0] == 'c' ? 4 : 8) << "\n\t.popsection\n";
    module.appendModuleInlineAsm(out.str());
}

void writer::finish()
{
    if (out.str().empty())
        return;
    mv_write_note(module);
    module.appendModuleInlineAsm(out.str());
    appendToCompilerUsed(module, used);
}

void mv_write_records(Module &module, const std::vector<mv_record> &records)
{
    writer w(module);
    for (const mv_record &record : records)
        w.function(record);
    for (GlobalVariable &variable : module.globals())
        if (!variable.isDeclarationForLinker())
            w.defined(variable);
    w.finish();
}
