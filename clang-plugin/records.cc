/* SPDX-License-Identifier: MIT
 *
 * records.cc: entries and descriptors (include/mvld/descriptor.h) of a unit.
 *
 * A pass reaches no instruction of the entry, so the pad is LLVM's prologue data: bytes that begin
 * the function.  They hold the endbr64 themselves; the one that the back end adds comes behind.
 *
 *     f:  [endbr64; nopl 0(%rax)]
 *         nopl    0(%rax,%rax)          0f 1f 44 00 00, may become jmp variant
 *
 * Descriptors are an asm of the module, which is assembled before all code.  Each function of ours is
 * alone in a section, whose beginning that asm labels.  So it has a label that is the unit's own: a
 * definition of the same name elsewhere cannot take it over.  Its end is that of subsection 0.
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
    void note();
    void function(const mv_record &record);
    void defined(const GlobalVariable &sw);
    void finish();

private:
    std::string text;
    raw_string_ostream out;
    Module &module;
    bool has_endbr;
    unsigned n_records = 0, n_places = 0;
    std::vector<GlobalValue *> used; /* by the descriptors alone, as LLVM sees it */
    std::map<const Function *, unsigned> places;

    void quoted(const std::string &s);
    unsigned begin_record();
    void end_record(unsigned n) { out << "\t.balign 8\n.Lmv_end" << n << ":\n"; }
    void reference(const GlobalVariable &sw);
    void switch_record(const GlobalVariable &sw, unsigned flags);
    void function_record(const mv_record &record);
    unsigned begin_place(Function &function);
    void body(Function &variant);
    void pad(Function &function);
};

} // namespace

/* ---- text --------------------------------------------------------------------------- */

void writer::quoted(const std::string &s)
{
    out << '"';
    for (unsigned char c : s)
        if (c == '"' || c == '\\')
            out << '\\' << c;
        else if (c < ' ')
            out << format("\\%03o", c);
        else
            out << c;
    out << '"';
}

/* A record is its size, then what is written until end_record(), padded to 8 bytes. */
unsigned writer::begin_record()
{
    unsigned n = n_records++;
    out << "\t.balign 8\n.Lmv_record" << n << ":\n\t.long .Lmv_end" << n << "-.Lmv_record" << n << "\n";
    return n;
}

/* Another object's switch is in a slot of the GOT. */
void writer::reference(const GlobalVariable &sw)
{
    out << "\t.long ";
    quoted(mv_symbol(sw));
    out << (sw.isDSOLocal() ? "-.\n" : "@GOTPCREL\n");
}

static unsigned flags_of(const GlobalVariable &variable)
{
    const mv_switch &sw = *mv_switch_of(&variable);
    return (sw.is_signed ? 1 : 0) | (sw.is_tracked ? 2 : 0) | (sw.is_bool ? 8 : 0) |
           (sw.is_constant ? 16 : 0) | (variable.isDSOLocal() ? 32 : 0);
}

void writer::switch_record(const GlobalVariable &variable, unsigned flags)
{
    const mv_switch &sw = *mv_switch_of(&variable);
    unsigned n = begin_record();
    out << "\t.byte " << sw.width << ", " << (flags_of(variable) | flags) << "\n\t.value 16\n";
    reference(variable);
    out << "\t.long 0\n\t.asciz ";
    quoted(sw.name);
    out << "\n";
    end_record(n);
}

/* ---- code ----------------------------------------------------------------------------- */

/* Gives the function a section, whose text stays open, and labels it. */
unsigned writer::begin_place(Function &function)
{
    std::string name = ".text." + mv_symbol(function);
    unsigned n = n_places++;
    function.setSection(name);
    used.push_back(&function);
    out << "\t.pushsection ";
    quoted(name);
    if (function.hasComdat()) {
        out << ",\"axG\",@progbits,";
        quoted(function.getComdat()->getName().str());
        out << ",comdat\n";
    } else {
        out << ",\"ax\",@progbits\n";
    }
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
    unsigned n = begin_record(), name_at = at + name.size() + 1;
    out << "\t.value 0, " << at << ", " << record.variants.size() << ", " << guards << "\n\t.long .Lmv_body"
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
            reference(sw);
            out << "\t.byte " << mv_switch_of(&sw)->width << ", " << flags_of(sw) << "\n\t.value 0\n\t.quad "
                << v.ranges[i].low << ", " << v.ranges[i].high << "\n";
        }
    out << "\t.asciz ";
    quoted(name);
    for (const mv_variant &v : record.variants) {
        out << "\n\t.asciz ";
        quoted(mv_symbol(*v.body));
    }
    out << "\n";
    end_record(n);
}

void writer::function(const mv_record &record)
{
    Function &generic = *record.generic;
    for (const mv_variant &v : record.variants)
        body(*v.body);
    pad(generic);
    unsigned n = places[&generic] = begin_place(generic);
    out << "\t.set .Lmv_body" << n << ", .Lmv_at" << n << "+(";
    quoted(mv_symbol(generic));
    out << "-.Lmv_at" << n << ")\n\t.pushsection multiverse_functions,\"ao?\",@progbits,.Lmv_at" << n << "\n";
    function_record(record);
    out << "\t.popsection\n";
    if (!record.switches.empty()) {
        out << "\t.pushsection multiverse_switches,\"ao?\",@progbits,.Lmv_at" << n << "\n";
        for (const GlobalVariable *sw : record.switches)
            switch_record(*sw, 0);
        out << "\t.popsection\n";
    }
    out << "\t.popsection\n";
}

/* ---- what belongs to no code -------------------------------------------------------------- */

void writer::defined(const GlobalVariable &sw)
{
    used.push_back(const_cast<GlobalVariable *>(&sw));
    out << "\t.pushsection multiverse_switches,\"ao\",@progbits,.Lmv_note\n";
    switch_record(sw, 4);
    out << "\t.popsection\n";
}

/* Every unit has all three tables, if only empty ones: a shared object may not refer to a hidden
 * __start_ symbol that nothing defines, weak or not. */
void writer::note()
{
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
}

void writer::finish()
{
    module.appendModuleInlineAsm(out.str());
    appendToCompilerUsed(module, used);
}

void mv_write_records(Module &module, const std::vector<mv_record> &records)
{
    std::vector<const GlobalVariable *> defined;
    for (const GlobalVariable &variable : module.globals())
        if (mv_switch_of(&variable) && !variable.isDeclarationForLinker())
            defined.push_back(&variable);
    if (records.empty() && defined.empty())
        return;
    writer w(module);
    w.note();
    for (const mv_record &record : records)
        w.function(record);
    for (const GlobalVariable *sw : defined)
        w.defined(*sw);
    w.finish();
}
