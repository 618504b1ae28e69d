/* SPDX-License-Identifier: MIT
 *
 * constants.cc: reads of run-time constants, multiverse("constant"), which may be variables or
 * members.
 *
 * They stay loads.  So that a commit can report this, each function with such loads has an empty
 * asm, whose text writes a record of each constant for the library.  The asm is in the function, so
 * the record is discarded with the code (its COMDAT group, --gc-sections).  This happens in the
 * last pass: before it, functions are inlined and reads are removed.
 */
#include "multiverse.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

static const unsigned unrecorded = 64; /* MULTIVERSE_SWITCH_UNRECORDED */

namespace {
/* By symbol and offset, so that the order of records does not depend on addresses in the compiler. */
typedef std::map<std::pair<std::string, uint64_t>, std::pair<const GlobalVariable *, const mv_switch *>> constants;
} // namespace

/* Adds the constants in `size` bytes at an address; for an unknown index, all of the variable. */
static void add(const Value *address, uint64_t size, const DataLayout &layout, constants &out)
{
    SmallVector<const Value *, 4> objects;
    getUnderlyingObjects(address, objects, nullptr, 0);
    for (const Value *object : objects) {
        auto *variable = dyn_cast<GlobalVariable>(object->stripPointerCastsAndAliases());
        if (!variable || mv_constants_of(*variable).empty())
            continue;
        APInt offset(layout.getIndexTypeSizeInBits(address->getType()), 0);
        bool known = address->stripAndAccumulateConstantOffsets(layout, offset, true)
                         ->stripPointerCastsAndAliases() == variable;
        for (const mv_switch &sw : mv_constants_of(*variable))
            if (!known || (sw.offset < offset.getZExtValue() + size && offset.getZExtValue() < sw.offset + sw.width))
                out[{mv_symbol(*variable), sw.offset}] = {variable, &sw};
    }
}

/* A volatile or ordered load is meant for the variable, and is no read of the constant. */
static void find_loads(const Instruction &i, const DataLayout &layout, constants &out)
{
    if (auto *load = dyn_cast<LoadInst>(&i)) {
        if (!load->isVolatile() && (load->isUnordered() || load->getOrdering() == AtomicOrdering::Monotonic))
            add(load->getPointerOperand(), layout.getTypeStoreSize(load->getType()), layout, out);
    } else if (auto *copy = dyn_cast<AnyMemTransferInst>(&i)) {
        auto *length = dyn_cast<ConstantInt>(copy->getLength());
        if (!copy->isVolatile())
            add(copy->getRawSource(), length ? length->getZExtValue() : INT32_MAX, layout, out);
    } else if (auto *call = dyn_cast<CallBase>(&i)) {
        for (const Use &argument : call->args())
            if (argument->getType()->isPointerTy() &&
                (call->isInlineAsm() || call->isByValArgument(call->getArgOperandNo(&argument))))
                add(argument, INT32_MAX, layout, out);
    }
}

static CallInst *records_of(const constants &loaded, LLVMContext &context)
{
    std::string text;
    for (const auto &constant : loaded)
        text += mv_switch_text(*constant.second.first, *constant.second.second, unrecorded);
    for (size_t at = 0; (at = text.find('$', at)) != std::string::npos; at += 2)
        text.insert(at, 1, '$');
    text = ".Lmv_loads${:uid}:\n\t.pushsection multiverse_switches,\"ao?\",@progbits,.Lmv_loads${:uid}\n" + text +
           "\t.popsection";
    auto *type = FunctionType::get(Type::getVoidTy(context), false);
    auto *call = CallInst::Create(type, InlineAsm::get(type, text, "", true));
    call->setDoesNotThrow();
    return call;
}

void mv_report_loads(Module &module)
{
    for (Function &function : module) {
        constants loaded;
        if (function.isDeclarationForLinker())
            continue;
        for (const BasicBlock &block : function)
            for (const Instruction &i : block)
                find_loads(i, module.getDataLayout(), loaded);
        if (loaded.empty())
            continue;
        mv_write_note(module);
        BasicBlock::iterator behind = function.getEntryBlock().getFirstInsertionPt();
        while (isa<AllocaInst>(*behind))
            behind++;
        records_of(loaded, module.getContext())->insertBefore(&*behind);
    }
}
