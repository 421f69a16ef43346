// Rules for single tensors, and regions to recompute.
#include "autograd/policies/rules.h"
#include "autograd/block_range.h"
#include "autograd/policies/adaptive.h"
#include "autograd/tape.h"

#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/products/linear.h"
#include "ops/products/matmul.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

#include <set>

using namespace lacuna;

namespace {

HoldRule rule(std::string_view hold, std::string_view path = "*", std::string_view op = "*",
              std::string_view user = "*") {
  const auto how = parse_hold(hold);
  REQUIRE(how);
  HoldRule made{.path = std::string(path), .op = std::string(op), .user = std::string(user), .how = how->first};
  if (made.how == HoldRule::How::quantize) made.bits = how->second;
  return made;
}

struct HowHeld {
  Hold::Kind hold;
  int bits;
  bool operator==(const HowHeld&) const = default;
};

/// tanh(linear(gelu(linear(x)))) of f32 [4, 16, 32], large enough to be coded; how each op's output is held, by
/// `path op`; a leaf by its path.
std::map<std::string, HowHeld> held(MemoryPolicy& policy) {
  const Variable x = test_leaf({4, 16, 32}, 1, DType::f32), first = test_leaf({32, 32}, 2, DType::f32);
  const Variable second = test_parameter({32, 32}, 3, DType::f32), bias = test_leaf({32}, 4, DType::f32);
  Tape tape(policy);
  const Recording recording(tape);
  const auto at = [](std::string_view path, const auto& body) {
    const AllocationScope scope({Purpose::transient, {}, Label(path)});
    return body();
  };
  Variable h = at("a", [&] { return apply(Linear{}, x, first, bias); });
  h = at("a.curve", [&] { return apply(Gelu{}, std::move(h)); });
  h = at("b", [&] { return apply(Linear{}, std::move(h), second, Variable()); });
  h = at("b.curve", [&] { return apply(Tanh{}, std::move(h)); });
  const Variable loss = total(std::move(h));
  std::map<std::string, HowHeld> all;
  for (const Tape::SavedTensorReport& slot : tape.report())
    all[slot.info.op.text().empty() ? std::string(slot.info.path.text())
                                    : std::string(slot.info.path.text()) + " " + std::string(slot.info.op.text())] = {
        slot.hold, slot.bits};
  tape.backward(loss);
  CHECK(live_bytes(Purpose::saved) == 0);
  return all;
}

std::map<std::string, HowHeld> held(std::string_view base, std::vector<HoldRule> rules) {
  return held(*with_rules(make_policy(base), std::move(rules), {}));
}

}  // namespace

TEST_CASE("rules: the first that applies wins, the rest is the policy's") {
  const auto exact = held("exact", {});
  CHECK(exact.at("a linear") == HowHeld{Hold::keep, 0});
  CHECK(exact.at("a.curve gelu") == HowHeld{Hold::rematerialize, 0});
  CHECK(exact.at("b.curve tanh") == HowHeld{Hold::keep, 0});

  auto ruled = held("exact", {rule("int4", "a"), rule("int2", "*", "linear"), rule("int2")});
  CHECK(ruled.at("a linear") == HowHeld{Hold::quantize, 4});
  CHECK(ruled.at("b.curve tanh") == HowHeld{Hold::quantize, 2});
  CHECK(ruled.at("leaf1") == HowHeld{Hold::keep, 0});  // the caller holds it anyway: no rule codes it

  ruled = held("fixed", {rule("keep", "b*")});
  CHECK(ruled.at("a linear") == HowHeld{Hold::quantize, 4});  // the policy's own
  CHECK(ruled.at("b.curve tanh") == HowHeld{Hold::keep, 0});
  CHECK(ruled.at("leaf1") == HowHeld{Hold::keep, 0});  // the caller holds it anyway: no policy codes it
  CHECK(held("fixed", {rule("exact", "a")}).at("a linear") == HowHeld{Hold::keep, 0});

  ruled = held("exact", {rule("keep", "*", "gelu"), rule("int8", "*", "input")});
  CHECK(ruled.at("a.curve gelu") == HowHeld{Hold::keep, 0});  // kept beside what it could be derived from
  CHECK(ruled.at("leaf1") == HowHeld{Hold::keep, 0});
  CHECK(ruled.at("b.curve tanh") == HowHeld{Hold::keep, 0});
}

TEST_CASE("rules: a slot is one of the tensors that an op of a module makes") {
  const Variable x = test_leaf({4, 16, 32}, 1, DType::f32), weight = test_parameter({32, 32}, 2, DType::f32);
  const auto bits_of = [&](const std::string& slot) {
    HoldRule int2 = rule("int2", "m", "linear"), int4 = rule("int4");
    int2.slot = slot;
    const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {int2, int4}, {});
    Tape tape(*policy);
    const Recording recording(tape);
    const AllocationScope scope({Purpose::transient, {}, Label("m")});
    Variable h = x;
    for (int i = 0; i < 3; ++i) h = apply(Linear{}, std::move(h), weight, Variable());
    const Variable loss = total(apply(Tanh{}, std::move(h)));
    std::map<std::string, int> bits;
    for (const Tape::SavedTensorReport& slot_report : tape.report()) bits[slot_report.info.name()] = slot_report.bits;
    tape.backward(loss);
    return bits;
  };
  const auto second = bits_of("linear #2"), all = bits_of("linear*");
  CHECK(second.at("linear") == 4);
  CHECK(second.at("linear #2") == 2);
  CHECK(all.at("linear") == 2);
  CHECK(all.at("linear #2") == 2);
  CHECK(all.at("tanh") == 4);
}

TEST_CASE("rules: a tensor of one vector a sample is quantized by a rule only") {
  const Variable x = test_leaf({64, 32}, 1, DType::f32), square = test_parameter({32, 32}, 2, DType::f32);
  const auto hold = [&](std::string_view base, std::vector<HoldRule> rules) {
    const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy(base), std::move(rules), {});
    Tape tape(*policy);
    const Recording recording(tape);
    Variable vectors = apply(Linear{}, x, square, Variable());  // [64, 32]
    const Variable y = total(apply(Linear{}, std::move(vectors), square, Variable()));
    for (const Tape::SavedTensorReport& slot : tape.report())
      if (slot.info.op.text() == "linear") return slot.hold;
    return Hold::drop;
  };
  for (const std::string_view policy : {"fixed", "mesa", "adaptive"}) CHECK(hold(policy, {}) == Hold::keep);
  CHECK(hold("fixed", {rule("int4", "*", "linear")}) == Hold::quantize);
}

TEST_CASE("mesa: a tensor by heads has a range a head, and is not quantized if it has one vector a sample") {
  const Variable keys = test_leaf({8, 3, 20, 64}, 1, DType::f32), square = test_parameter({64, 64}, 2, DType::f32);
  const auto held = [&](std::int64_t positions) {
    const std::unique_ptr<MemoryPolicy> policy = make_policy("mesa");
    Tape tape(*policy);
    const Recording recording(tape);
    Variable queries = apply(Linear{}, test_leaf({8, 3, positions, 64}, 3, DType::f32), square, Variable());
    const Variable y = total(apply(MatMul{.transpose_b = true}, std::move(queries), keys));
    for (const Tape::SavedTensorReport& slot : tape.report())
      if (slot.info.op.text() == "linear") return std::pair(slot.hold, slot.bytes);
    return std::pair(Hold::drop, std::int64_t{0});
  };
  CHECK(held(20) == std::pair(Hold::quantize, std::int64_t{8 * 3 * 20 * 64 + 3 * 4}));
  CHECK(held(1).first == Hold::keep);
}

TEST_CASE("rules: by the ops that read a tensor") {
  const auto ruled = held("exact", {rule("int3", "*", "*", "gelu")});
  CHECK(ruled.at("a linear") == HowHeld{Hold::quantize, 3});
  CHECK(ruled.at("leaf1") == HowHeld{Hold::keep, 0});
  CHECK(ruled.at("b.curve tanh") == HowHeld{Hold::keep, 0});
}

TEST_CASE("rules: a rule passes over tensors that cannot be quantized") {
  // Both are so small that codes would save nothing worth having.
  const Variable x = test_leaf({16, 16}, 1, DType::f32), weight = test_leaf({16, 16}, 2, DType::f32);
  const std::unique_ptr<RuledPolicy> policy =
      with_rules(make_policy("exact"), {rule("int4"), rule("keep", "leaf1")}, {});
  Tape tape(*policy);
  const Recording recording(tape);
  const Variable y = total(apply(Linear{}, x, weight, Variable()));
  for (const Tape::SavedTensorReport& slot : tape.report()) CHECK(slot.hold == Hold::keep);
  tape.backward(y);
  const std::vector<std::string> unmatched = policy->unmatched();
  REQUIRE(unmatched.size() == 1);  // the second was reached
  CHECK(unmatched[0] ==
        "memory.rules: no tensor is held by the rule {path: *, op: *, slot: *, user: *, hold: int4}: "
        "what matches cannot be quantized: less than 4 KiB, statistics, parameters, a batch that is held anyway, "
        "and what is needed to the bit or by its sign alone");
}

TEST_CASE("rules: slope2 keeps two bits where only the slope of a curve is read") {
  const HoldRule output = rule("int4", "*", "gelu"), two_bits = rule("slope2", "*", "*", "gelu");
  // The curve's value cannot be derived from the slope's two bits.
  const auto alone = held("exact", {two_bits}), both = held("exact", {output, two_bits});
  CHECK(alone.at("a linear") == HowHeld{Hold::quantize, 2});
  CHECK(alone.at("a.curve gelu").hold == Hold::keep);
  CHECK(both.at("a linear") == HowHeld{Hold::quantize, 2});
  CHECK(both.at("a.curve gelu") == HowHeld{Hold::quantize, 4});
  // A linear layer reads the values of its input, so a rule for slopes does not match.
  const std::unique_ptr<RuledPolicy> nothing =
      with_rules(make_policy("exact"), {rule("slope2", "*", "*", "linear")}, {});
  held(*nothing);
  CHECK(nothing->unmatched().size() == 1);

  // The gradient is that at one of four places.
  const Variable x = test_leaf({64, 64}, 1, DType::f32);
  const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {two_bits}, {});
  Tape tape(*policy);
  const Recording recording(tape);
  const Variable y = apply(Gelu{}, apply(Scale{.factor = 1}, x));
  tape.backward(total(y));
  std::set<double> slopes;
  for (const double value : x.grad().to_vector()) slopes.insert(value);
  CHECK(slopes.size() == 4);
}

TEST_CASE("rules: rules and patterns that applied to nothing are reported") {
  const std::unique_ptr<RuledPolicy> policy =
      with_rules(make_policy("exact"),
                 {rule("int4", "a*"), rule("int2", "a"), rule("keep", "c*"), rule("recompute", "d.*")}, {"e.*", "b"});
  CHECK(policy->unmatched().size() == 6);
  held(*policy);
  CHECK(policy->recomputes({.path = "b"}, ""));
  CHECK(!policy->recomputes({.path = "a"}, ""));
  CHECK(!policy->recomputes({.path = "a.0.attn"}, "a"));
  CHECK(!policy->recomputes({.path = "a.11.attn"}, "a"));
  const std::vector<std::string> unmatched = policy->unmatched();
  REQUIRE(unmatched.size() == 4);
  const auto names = [&](std::size_t line, const char* rule) {
    return unmatched[line].find(rule) != std::string::npos;
  };
  CHECK(names(0, "{path: a, op: *, slot: *, user: *, hold: int2}: rules before it hold all that it could"));
  CHECK(names(1, "{path: c*, op: *, slot: *, user: *, hold: keep}: no tensor has the path c*; there are "));
  for (const char* const path : {"leaf1", "a", "b.curve"}) CHECK(names(1, path));
  CHECK(!names(1, "there are ,"));  // what was made in no module has no path
  CHECK(names(2, "{path: d.*, op: *, slot: *, user: *, hold: recompute}"));
  CHECK(unmatched[3] ==
        "memory.recompute: e.* recomputes nothing: no region of the model matches, or others come first; "
        "there are b, a, a.*.attn");
  CHECK(unmatched[2].ends_with("none matches, or others come first; there are b, a, a.*.attn"));
  CHECK(policy->recomputes({.path = "d.2"}, ""));
  CHECK(policy->unmatched().size() == 3);

  const std::unique_ptr<RuledPolicy> misspelt = with_rules(make_policy("exact"), {}, {"a.0.atn"});
  CHECK(!misspelt->recomputes({.path = "a.0.attn"}, ""));
  CHECK(misspelt->unmatched().at(0).ends_with(", or others come first, did you mean a.0.attn?; there are a.*.attn"));
  const std::unique_ptr<RuledPolicy> others =
      with_rules(make_policy("exact"), {}, {"a.0.attn", "a.0.attn", "A.*.attn"});
  CHECK(others->recomputes({.path = "a.0.attn"}, ""));
  CHECK(others->unmatched().at(0).ends_with(", or others come first; there are a.*.attn"));
  CHECK(others->unmatched().at(1).ends_with(", or others come first, did you mean a.*.attn?; there are a.*.attn"));
}

TEST_CASE("rules: the report of a pattern without a match names what there is") {
  const auto reason = [](HoldRule wrong) {
    const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {std::move(wrong)}, {});
    held(*policy);
    const std::string text = policy->unmatched().at(0);
    return text.substr(text.find("}: ") + 3);
  };
  CHECK(reason(rule("keep", "*", "linaer")) ==
        "no tensor has the op linaer, did you mean linear?; there are gelu, input, linear, tanh");
  CHECK(reason(rule("keep", "b.curv")).starts_with("no tensor has the path b.curv, did you mean b.curve?; there are "));
  CHECK(reason(rule("keep", "*", "*", "conv2d")).starts_with("no tensor has the user conv2d; there are "));
  HoldRule slot = rule("keep");
  slot.slot = "linear #2";
  CHECK(reason(slot).starts_with("no tensor has the slot linear #2"));
  CHECK(reason(rule("keep", "a", "tanh")) ==
        "no tensor matches all of it; `lacuna explain` lists them by path, slot and reader");
  CHECK(reason(rule("slope2", "*", "*", "linear")) ==
        "what matches cannot be quantized, or is read by something besides one GELU or SiLU");
}

TEST_CASE("rules: the report names up to twelve patterns of regions") {
  const auto told = [](const RuledPolicy& policy) {
    const std::string text = policy.unmatched().front();
    const std::size_t at = text.find("; there are ");
    return at == std::string::npos ? std::string() : text.substr(at + 2);
  };
  const std::unique_ptr<RuledPolicy> policy = with_rules(make_policy("exact"), {}, {"nowhere"});
  CHECK(told(*policy).empty());
  CHECK(policy->recomputes({"layer1", 0, 3, 3}, "") == 0);
  CHECK(policy->recomputes({"layer2", 1, 3, 3}, "") == 0);  // its first block is frozen
  for (const char* path : {"layer1.0", "layer1.2", "layer2.1", "0", "0.1", "2x.1"})
    CHECK(!policy->recomputes({.path = path}, ""));
  CHECK(told(*policy) == "there are layer1, layer1.*, layer2.*, *, *.*, 2x.*");
  for (const char* path : {"a", "b", "c", "d", "e", "f"}) CHECK(!policy->recomputes({.path = path}, ""));
  CHECK(told(*policy) == "there are layer1, layer1.*, layer2.*, *, *.*, 2x.*, a, b, c, d, e, f");
  CHECK(!policy->recomputes({.path = "g"}, ""));
  CHECK(told(*policy) == "there are layer1, layer1.*, layer2.*, *, *.*, 2x.*, a, b, c, d, e, f and others");
}

TEST_CASE("rules: texts of holds") {
  for (const std::string text : {"keep", "exact", "recompute", "slope2", "int1", "int4", "int8"})
    CHECK(hold_text(rule(text)) == text);
  for (const std::string text : {"", "int", "int0", "int9", "int10", "INT4", "drop", "keep "})
    CHECK_MESSAGE(!parse_hold(text), text);
}

TEST_CASE("rules: with rules a policy has the same name and state") {
  const std::unique_ptr<MemoryPolicy> mesa = make_policy("mesa"),
                                      refined = with_rules(make_policy("mesa"), {rule("int4", "b*")}, {});
  CHECK(refined->name() == "mesa");
  CHECK(adaptive_of(*with_rules(make_policy("adaptive"), {rule("int4")}, {}))->calibrate_every() == 200);
  held(*refined);
  CHECK(!refined->state().empty());
  mesa->set_state(refined->state());
  CHECK(mesa->state().size() == refined->state().size());
}

TEST_CASE("rules: runs of blocks have one name") {
  CHECK(parse_block_range("blocks.4-7")->first == 4);
  CHECK(parse_block_range("blocks.4-7")->last == 7);
  CHECK(parse_block_range("a.b.0-10")->sequence == "a.b");
  for (const char* other : {"blocks", "blocks.4", "blocks.4-4", "blocks.7-4", "blocks.04-7", "blocks.4-07",
                            "blocks.-0-3", "blocks.4-7 ", "blocks.4-", "blocks.[4-7]", "4-7", ""})
    CHECK(!parse_block_range(other));
  // A sequence of one block is a region as a whole, too.
  const std::unique_ptr<RuledPolicy> whole = with_rules(make_policy("exact"), {}, {"layer1"});
  CHECK(whole->recomputes({"layer1", 0, 1, 1}, "") == 1);
  CHECK(whole->recomputes({"layer1", 0, 1, 1}, "layer1") == 0);
  CHECK(whole->unmatched().empty());
}
