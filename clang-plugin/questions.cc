/* SPDX-License-Identifier: MIT
 *
 * questions.cc: finds the comparisons of a switch in a function ("questions"), and the ranges into
 * which they divide its values.
 *
 * A question is a comparison of the switch with a constant, or a `switch` over it.  The value is
 * followed from its load through extensions and added constants to the comparison.  So the answer
 * is a computable function of the switch's value.  It can change only at the compared constants,
 * mapped back the same way.
 *
 * Whether a whole range has one answer is decided differently, by LLVM's ConstantRange, which maps
 * all values forward at once.  If the first method misses a border, an answer is missing, but never
 * wrong.
 */
#include "multiverse.h"

#include "llvm/IR/ConstantRange.h"

#include <algorithm>

using namespace llvm;

namespace {

struct question {
    Instruction *asks;             /* an ICmpInst, or a SwitchInst */
    std::vector<Instruction *> way; /* the steps from the switch's value to the compared value */
    bool only_examples;            /* it may also hold for other values */
    std::vector<APInt> examples;   /* then these are compared */
};

struct follower {
    std::vector<question> out;
    bool otherwise = false; /* the value has other uses */
    std::set<Value *> seen;
    std::vector<Instruction *> way;
    bool masked = false; /* then an answer is only an example */

    void follow(Value *value, unsigned depth);
    void user(Instruction *user, Value *value, unsigned depth);
    void behind_mask(Instruction *user, unsigned depth);
};

} // namespace

/* ---- values ----------------------------------------------------------------------- */

mv_piece mv_all_values(const mv_switch &sw)
{
    unsigned bits = sw.is_bool ? 1 : 8 * sw.width;
    if (!sw.is_signed)
        return {0, ((mv_wide)1 << bits) - 1};
    return {-((mv_wide)1 << (bits - 1)), ((mv_wide)1 << (bits - 1)) - 1};
}

static APInt bits_of(const mv_switch &sw, mv_wide value)
{
    return APInt(64, (uint64_t)value).zextOrTrunc(8 * sw.width);
}

static mv_wide value_of(const mv_switch &sw, const APInt &bits)
{
    return sw.is_signed ? (mv_wide)bits.getSExtValue() : (mv_wide)bits.getZExtValue();
}

/* ---- loads -------------------------------------------------------------------------- */

std::vector<LoadInst *> mv_reads(Function &function, const GlobalVariable *sw)
{
    std::vector<LoadInst *> out;
    unsigned bits = 8 * mv_switch_of(sw)->width;
    for (BasicBlock &block : function)
        for (Instruction &i : block)
            if (auto *load = dyn_cast<LoadInst>(&i))
                if (load->getPointerOperand()->stripPointerCastsAndAliases() == sw && !load->isVolatile() &&
                    load->getType()->isIntegerTy(bits) &&
                    (load->isUnordered() || load->getOrdering() == AtomicOrdering::Monotonic))
                    out.push_back(load);
    return out;
}

/* ---- the way of a value ---------------------------------------------------------------- */

void follower::follow(Value *value, unsigned depth)
{
    if (depth > 12)
        otherwise = true;
    if (depth > 12 || !seen.insert(value).second)
        return;
    std::vector<User *> users(value->user_begin(), value->user_end()); /* their order changes */
    for (User *u : users)
        user(cast<Instruction>(u), value, depth);
}

/* All bits, none, and the constants compared later. */
void follower::behind_mask(Instruction *user, unsigned depth)
{
    bool before = masked;
    masked = otherwise = true;
    if (user->getOpcode() == Instruction::And)
        if (auto *mask = dyn_cast<ConstantInt>(user->getOperand(1)))
            out.push_back({user, way, true, {APInt(mask->getBitWidth(), 0), mask->getValue()}});
    follow(user, depth + 1);
    masked = before;
}

/* Moves the constant of `5 < n` and `5 + n` to the right. */
static void put_in_order(Instruction *user)
{
    if (user->getNumOperands() != 2 || !isa<ConstantInt>(user->getOperand(0)))
        return;
    if (auto *compare = dyn_cast<ICmpInst>(user))
        compare->swapOperands();
    else if (auto *binary = dyn_cast<BinaryOperator>(user))
        binary->swapOperands(); /* unless it does not commute */
}

void follower::user(Instruction *user, Value *value, unsigned depth)
{
    put_in_order(user);
    bool constant = user->getNumOperands() == 2 && isa<ConstantInt>(user->getOperand(1)) &&
                    user->getOperand(0) == value;
    switch (user->getOpcode()) {
    case Instruction::ICmp:
        if (constant)
            out.push_back({user, way, masked, {cast<ConstantInt>(user->getOperand(1))->getValue()}});
        else
            otherwise = true;
        break;
    case Instruction::Switch: {
        std::vector<APInt> cases;
        for (auto &c : cast<SwitchInst>(user)->cases())
            cases.push_back(c.getCaseValue()->getValue());
        out.push_back({user, way, masked, cases});
        break;
    }
    case Instruction::Add:
    case Instruction::Sub:
        if (!constant) {
            otherwise = true;
            break;
        }
        LLVM_FALLTHROUGH;
    case Instruction::ZExt:
    case Instruction::SExt:
        way.push_back(user);
        follow(user, depth + 1);
        way.pop_back();
        break;
    case Instruction::And:
    case Instruction::PHI: /* another value may arrive, too */
        behind_mask(user, depth);
        break;
    default:
        otherwise = true;
    }
}

static follower questions_of(Function &function, const GlobalVariable *sw)
{
    follower f;
    for (LoadInst *load : mv_reads(function, sw))
        f.follow(load, 0);
    return f;
}

/* ---- one answer --------------------------------------------------------------------------- */

static APInt forward(const question &q, APInt value)
{
    for (Instruction *step : q.way) {
        unsigned bits = step->getType()->getIntegerBitWidth();
        if (isa<ZExtInst>(step))
            value = value.zext(bits);
        else if (isa<SExtInst>(step))
            value = value.sext(bits);
        else if (step->getOpcode() == Instruction::Add)
            value += cast<ConstantInt>(step->getOperand(1))->getValue();
        else
            value -= cast<ConstantInt>(step->getOperand(1))->getValue();
    }
    return value;
}

static APInt backward(const question &q, APInt value)
{
    for (size_t i = q.way.size(); i-- > 0;) {
        Instruction *step = q.way[i];
        if (isa<CastInst>(step))
            value = value.trunc(step->getOperand(0)->getType()->getIntegerBitWidth());
        else if (step->getOpcode() == Instruction::Add)
            value -= cast<ConstantInt>(step->getOperand(1))->getValue();
        else
            value += cast<ConstantInt>(step->getOperand(1))->getValue();
    }
    return value;
}

/* 0, or the number of the answer. */
static uintptr_t answer(const question &q, const APInt &value)
{
    APInt compared = forward(q, value);
    if (auto *compare = dyn_cast<ICmpInst>(q.asks))
        return ConstantRange(compared).icmp(
            compare->getPredicate(), cast<ConstantInt>(compare->getOperand(1))->getValue());
    auto *by = cast<SwitchInst>(q.asks);
    BasicBlock *to = by->findCaseValue(ConstantInt::get(by->getContext(), compared))
                         ->getCaseSuccessor();
    return to == by->getDefaultDest() ? 0 : (uintptr_t)to;
}

/* ---- domains ---------------------------------------------------------------------------- */

/* Values of the switch's type where the answer may change: a compared constant mapped back, and the
 * ends of each type. */
static std::set<mv_wide> cuts_of(const question &q, const mv_switch &sw)
{
    std::set<mv_wide> out;
    auto add = [&](const APInt &b) { out.insert(value_of(sw, b)); };
    std::vector<APInt> compared = q.examples;
    unsigned wide = q.asks->getOperand(0)->getType()->getIntegerBitWidth();
    compared.push_back(APInt(wide, 0));
    compared.push_back(APInt::getSignedMinValue(wide));
    for (const APInt &c : compared) {
        add(backward(q, c));
        add(backward(q, c + 1));
    }
    /* An extension divides its operand's cyclic type there. */
    question part = q;
    for (; !part.way.empty(); part.way.pop_back()) {
        Instruction *step = part.way.back();
        if (!isa<CastInst>(step))
            continue;
        unsigned from = step->getOperand(0)->getType()->getIntegerBitWidth();
        question before = part;
        before.way.pop_back();
        add(backward(before, APInt(from, 0)));
        add(backward(before, APInt::getSignedMinValue(from)));
    }
    return out;
}

/* Values where the answer does change. */
static std::set<mv_wide> borders_of(const question &q, const mv_switch &sw, const mv_piece &all)
{
    std::set<mv_wide> out;
    for (mv_wide b : cuts_of(q, sw))
        if (b > all.low && answer(q, bits_of(sw, b)) != answer(q, bits_of(sw, b - 1)))
            out.insert(b);
    return out;
}

/* The pieces of the type with an answer other than "no". */
static std::vector<mv_piece> answers_of(const question &q, const mv_switch &sw)
{
    std::vector<mv_piece> out;
    mv_piece all = mv_all_values(sw);
    if (q.only_examples) {
        for (const APInt &example : q.examples) {
            mv_wide v = value_of(sw, backward(q, example));
            if (forward(q, bits_of(sw, v)) == example)
                out.push_back({v, v});
        }
        return out;
    }
    std::set<mv_wide> borders = borders_of(q, sw, all);
    borders.insert(all.high + 1);
    mv_wide low = all.low;
    for (mv_wide b : borders) {
        if (answer(q, bits_of(sw, low)))
            out.push_back({low, b - 1});
        low = b;
    }
    return out;
}

static std::string digits(mv_wide value)
{
    return (value < 0 ? "m" : "") + std::to_string((uint64_t)(value < 0 ? -value : value));
}

mv_value mv_value_of(mv_piece piece, const mv_piece &all)
{
    std::string label = digits(piece.low);
    if (piece.low != piece.high)
        label = (piece.low == all.low ? "min" : label) + "_to_" +
                (piece.high == all.high ? "max" : digits(piece.high));
    return {piece, piece, label};
}

/* The beginnings of the pieces, without the first, into which the answers divide the type. */
static std::set<mv_wide> borders(const std::vector<mv_piece> &found, bool otherwise,
                                 const mv_piece &all)
{
    static const unsigned few = 16;
    std::set<mv_wide> out;
    for (const mv_piece &p : found) {
        for (mv_wide v = p.low; otherwise && p.high - p.low < few && v <= p.high; v++)
            out.insert(v);
        out.insert(p.low);
        out.insert(p.high + 1);
    }
    auto outside = [&](mv_wide v) { return v <= all.low || v > all.high; };
    bool is_plain = std::all_of(out.begin(), out.end(), [&](mv_wide v) {
        return outside(v) || (v >= 0 && v <= 2); /* only 0 and 1 are compared */
    });
    if (otherwise && is_plain)
        out.insert({0, 1, 2});
    for (auto it = out.begin(); it != out.end();)
        it = outside(*it) ? out.erase(it) : std::next(it);
    return out;
}

std::vector<mv_value> mv_domain(Function &function, const GlobalVariable *variable)
{
    const mv_switch &sw = *mv_switch_of(variable);
    if (!sw.values.empty())
        return sw.values;
    std::vector<mv_piece> found;
    follower f = questions_of(function, variable);
    for (const question &q : f.out)
        for (const mv_piece &p : answers_of(q, sw))
            found.push_back(p);
    std::vector<mv_value> out;
    mv_piece all = mv_all_values(sw);
    mv_wide low = all.low;
    for (mv_wide border : borders(found, f.otherwise, all)) {
        out.push_back(mv_value_of({low, border - 1}, all));
        low = border;
    }
    out.push_back(mv_value_of({low, all.high}, all));
    return out;
}

/* ---- answering a range --------------------------------------------------------------------- */

static ConstantRange forward(const question &q, ConstantRange values)
{
    for (Instruction *step : q.way) {
        unsigned bits = step->getType()->getIntegerBitWidth();
        if (isa<ZExtInst>(step))
            values = values.zeroExtend(bits);
        else if (isa<SExtInst>(step))
            values = values.signExtend(bits);
        else if (step->getOpcode() == Instruction::Add)
            values = values.add(cast<ConstantInt>(step->getOperand(1))->getValue());
        else
            values = values.sub(cast<ConstantInt>(step->getOperand(1))->getValue());
    }
    return values;
}

/* Whether one case, or the default, holds for all of them. */
static bool is_one_way(SwitchInst *by, const ConstantRange &values)
{
    uint64_t cases = 0;
    std::set<BasicBlock *> to;
    for (auto &c : by->cases())
        if (values.contains(c.getCaseValue()->getValue())) {
            cases++;
            to.insert(c.getCaseSuccessor());
        }
    if (cases == 0)
        return true;
    return to.size() == 1 && (*to.begin() == by->getDefaultDest() ||
                              (!values.isFullSet() && values.getUpper() - values.getLower() == cases));
}

/* All values of the range as they are compared, in pieces that no step splits: if it were split,
 * ConstantRange would include everything between the halves. */
static std::vector<ConstantRange> pieces_of(const question &q, const mv_switch &sw, const mv_piece &range)
{
    std::vector<ConstantRange> out;
    std::set<mv_wide> cuts = cuts_of(q, sw);
    mv_wide low = range.low;
    cuts.insert(range.high + 1);
    for (mv_wide cut : cuts) {
        if (cut <= low || cut > range.high + 1)
            continue;
        out.push_back(forward(q, ConstantRange::getNonEmpty(bits_of(sw, low), bits_of(sw, cut - 1) + 1)));
        low = cut;
    }
    return out;
}

void mv_answer(Function &function, const GlobalVariable *variable, const mv_piece &range)
{
    const mv_switch &sw = *mv_switch_of(variable);
    for (const question &q : questions_of(function, variable).out) {
        if (q.only_examples)
            continue;
        std::vector<ConstantRange> pieces = pieces_of(q, sw, range);
        auto for_all = [&](auto holds) { return std::all_of(pieces.begin(), pieces.end(), holds); };
        APInt example = forward(q, bits_of(sw, range.low));
        if (auto *by = dyn_cast<SwitchInst>(q.asks)) {
            auto to = [&](const APInt &value) {
                return by->findCaseValue(ConstantInt::get(by->getContext(), value))->getCaseSuccessor();
            };
            if (for_all([&](const ConstantRange &piece) {
                    return is_one_way(by, piece) && to(piece.getLower()) == to(example);
                }))
                by->setCondition(ConstantInt::get(by->getContext(), example));
            continue;
        }
        auto *compare = cast<ICmpInst>(q.asks);
        ConstantRange with(cast<ConstantInt>(compare->getOperand(1))->getValue());
        if (for_all([&](const ConstantRange &piece) { return piece.icmp(compare->getPredicate(), with); }))
            compare->replaceAllUsesWith(ConstantInt::getTrue(compare->getType()));
        else if (for_all([&](const ConstantRange &piece) { return piece.icmp(compare->getInversePredicate(), with); }))
            compare->replaceAllUsesWith(ConstantInt::getFalse(compare->getType()));
    }
}
