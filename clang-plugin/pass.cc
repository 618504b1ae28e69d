/* SPDX-License-Identifier: MIT
 *
 * pass.cc: registration of the passes.
 *
 *   first    makes variation points weak: another definition may replace a weak function, so LLVM
 *            derives nothing from its body.  A caller with such knowledge would be wrong when a
 *            variant runs.
 *   early    in SSA form, before anything is inlined: inlines what must always be inlined, makes
 *            variants, writes descriptors.
 *   last     restores the functions' linkage, and reports the remaining reads of constants.
 */
#include "multiverse.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"

using namespace llvm;

static const char linkage[] = "multiverse-linkage";

namespace {

struct first_pass : PassInfoMixin<first_pass> {
    static bool isRequired() { return true; }
    PreservedAnalyses run(Module &module, ModuleAnalysisManager &)
    {
        for (Function &f : module) {
            if (!mv_point_of(f) || f.isDeclaration())
                continue;
            f.removeFnAttr(Attribute::InlineHint);
            f.addFnAttr(Attribute::NoInline);
            if (!f.hasExternalLinkage() && !f.hasInternalLinkage())
                continue;
            f.addFnAttr(linkage, f.hasInternalLinkage() ? "internal" : "external");
            f.setLinkage(GlobalValue::WeakAnyLinkage);
        }
        return PreservedAnalyses::none();
    }
};

struct early_pass : PassInfoMixin<early_pass> {
    static bool isRequired() { return true; }
    PreservedAnalyses run(Module &module, ModuleAnalysisManager &analyses)
    {
        auto &functions = analyses.getResult<FunctionAnalysisManagerModuleProxy>(module).getManager();
        std::vector<Function *> generics;
        for (Function &f : module)
            if (mv_point_of(f) && !f.isDeclarationForLinker())
                generics.push_back(&f);
        std::vector<mv_record> records;
        for (Function *f : generics) {
            const mv_point &point = *mv_point_of(*f);
            std::string problem = mv_entry_problem(*f);
            if (problem.empty())
                records.push_back(mv_make_variants(*f, point, functions));
            else
                mv_the_unit().warn(*f, "attribute 'multiverse' of function '" + point.name +
                                           "' ignored: " + problem);
        }
        mv_write_records(module, records);
        return PreservedAnalyses::none();
    }
};

struct last_pass : PassInfoMixin<last_pass> {
    static bool isRequired() { return true; }
    PreservedAnalyses run(Module &module, ModuleAnalysisManager &)
    {
        for (Function &f : module) {
            if (!f.hasFnAttribute(linkage))
                continue;
            bool internal = f.getFnAttribute(linkage).getValueAsString() == "internal";
            f.setLinkage(internal ? GlobalValue::InternalLinkage : GlobalValue::ExternalLinkage);
            f.removeFnAttr(linkage);
        }
        mv_report_loads(module);
        return PreservedAnalyses::none();
    }
};

} // namespace

static void register_passes(PassBuilder &builder)
{
    builder.registerPipelineStartEPCallback(
        [](ModulePassManager &passes, OptimizationLevel) { passes.addPass(first_pass()); });
    builder.registerPipelineEarlySimplificationEPCallback(
        [](ModulePassManager &passes, OptimizationLevel level) {
            passes.addPass(AlwaysInlinerPass(level != OptimizationLevel::O0));
            passes.addPass(early_pass());
        });
    builder.registerOptimizerLastEPCallback(
        [](ModulePassManager &passes, OptimizationLevel) { passes.addPass(last_pass()); });
}

extern "C" LLVM_ATTRIBUTE_WEAK __attribute__((visibility("default"))) PassPluginLibraryInfo
llvmGetPassPluginInfo()
{
    return {LLVM_PLUGIN_API_VERSION, "multiverse", "0.1.0", register_passes};
}
