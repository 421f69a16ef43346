// The policies that keep tensors in a few bits: `fixed`, `mesa` and `auto`.
#include "autograd/policies/quantizing.h"

#include "autograd/plan/bit_allocation.h"
#include "autograd/policies/lossless.h"
#include "core/op.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lacuna {

bool can_quantize(const SavedTensorInfo& facts) {
  constexpr std::int64_t least_bytes = 4096;
  return facts.need == Need::value && is_floating(facts.dtype) && facts.source.kind != Source::Kind::extra_output &&
         !facts.parameter && !facts.borrowed && facts.bytes >= least_bytes;
}

bool worth_quantizing(const SavedTensorInfo& facts) {
  const std::int64_t vectors = facts.shape.rows() / std::max<std::int64_t>(facts.shape.front(), 1),
                     heads = lies_by_heads(facts) ? facts.shape[1] : 1;
  return can_quantize(facts) && vectors > heads;
}

Decision hold_quantized(Decision otherwise, const SavedTensorInfo& facts, const quant::QuantConfig& coding) {
  otherwise.signs =
      std::any_of(facts.users.begin(), facts.users.end(), [](const Reader& user) { return user.need == Need::sign; });
  if (otherwise.hold != Hold::keep) return otherwise;
  otherwise.hold = Hold::quantize;
  otherwise.coding = coding;
  return otherwise;
}

Decision beside_codes(const Decision& decision, const SavedTensorInfo& facts) {
  const bool is_found_again = decision.hold == Hold::drop || decision.hold == Hold::rematerialize;
  if (!is_found_again || !facts.approximate) return decision;
  if (facts.need == Need::sign) return {.hold = Hold::sign_mask};
  return decision.hold == Hold::rematerialize ? hold_quantized(decision, facts, {}) : decision;
}

Setting group_size_setting(std::string_view meaning) {
  return {"group_size", 256.0, {.low = 64, .high = 1024, .below_high = false, .whole = true}, meaning};
}

Decision QuantizingPolicy::decide(const SavedTensorInfo& facts) {
  if (!quantizes()) return decide_exactly(facts);
  const Decision lossless = beside_codes(decide_exactly(facts), facts);
  if (lossless.hold != Hold::keep || !worth_quantizing(facts) || !codes(facts)) return lossless;
  // Pixels had 8 bits to begin with; with fewer the first layer learns from other images.
  if (facts.is_input()) return hold_quantized(lossless, facts, {.bits = 8, .rounding = quant::Rounding::dithered});
  const quant::QuantConfig coding = coding_of(facts);
  Decision decision = hold_quantized(lossless, facts, coding);
  decision.running = running_of(facts, coding);
  decision.draw = draw_of(facts);
  return decision;
}

namespace {

/// The same number of bits for every tensor; ranges are each group's own.
class SameBits : public QuantizingPolicy {
 public:
  bool quantizes() const override { return bits_ != exact_bits; }

 protected:
  explicit SameBits(const Settings& settings)
      : bits_(static_cast<int>(settings.whole_number("bits"))), group_size_(settings.whole_number("group_size")) {}

 private:
  quant::QuantConfig coding_of(const SavedTensorInfo& facts) override { return run_config(facts, bits_, group_size_); }

  int bits_;
  std::int64_t group_size_;
};

class Fixed final : public SameBits {
 public:
  static constexpr std::string_view policy_name = "fixed";
  static std::vector<Setting> settings() {
    return {{"bits", 4.0, {.low = 1, .high = 8, .below_high = false, .whole = true}, "of an element"},
            group_size_setting()};
  }
  explicit Fixed(const Settings& settings) : SameBits(settings) {}
  std::string_view name() const override { return policy_name; }
};

/// Mesa (Pan et al. 2021): 8 bits, ranges by head and by runs of channels, carried from step to step with a decay.
/// Values outside the estimated range saturate. Each kind of op can be switched off, as in the paper's ablation (table
/// 7): what only ops that are switched off read is kept as `exact` keeps it. Values that other ops read, and
/// regions that run again, are coded.
class Mesa final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "mesa";
  static std::vector<Setting> settings() {
    std::vector<Setting> all{
        {"bits", 8.0, {.low = 1, .high = 8, .below_high = false, .whole = true}, "of an element"},
        {"decay", 0.9, below_one, "how much of a range's estimate stays when the next step is seen"},
        group_size_setting("elements that share a range where columns are too narrow")};
    for (const Kind& kind : kinds) all.push_back({kind.name, true, {}, kind.meaning});
    return all;
  }
  explicit Mesa(const Settings& settings)
      : bits_(settings.whole_number("bits")),
        group_size_(settings.whole_number("group_size")),
        decay_(settings.number("decay")) {
    for (const Kind& kind : kinds)
      for (const std::string_view op : kind.ops)
        expect(std::ranges::find(op_names(), op) != op_names().end(), "memory policy mesa: {} names {}, which is no op",
               kind.name, op);
    for (const Kind& kind : kinds)
      if (!settings.flag(kind.name)) off_.insert(off_.end(), kind.ops.begin(), kind.ops.end());
  }
  std::string_view name() const override { return policy_name; }

  std::map<std::string, Tensor> state() const override {
    std::map<std::string, Tensor> state;
    for (const auto& [key, running] : running_) {
      std::vector<float> numbers;  // [groups, 2]
      for (const quant::Range& range : running.ranges) numbers.insert(numbers.end(), {range.min, range.max});
      if (!numbers.empty())
        state.emplace(key, Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size() / 2), 2}));
    }
    return state;
  }
  void set_state(const std::map<std::string, Tensor>& state) override {
    std::map<std::string, RunningRanges> running;
    for (const auto& [key, numbers] : state) {
      if (numbers.dtype() != DType::f32 || numbers.shape().rank() != 2 || numbers.shape().back() != 2)
        reject("memory policy mesa: expected the ranges of {} as f32 [groups, 2], got {} {}", key,
               name_of(numbers.dtype()), numbers.shape());
      std::vector<quant::Range> ranges;  // [groups]
      for (const float* at = numbers.data<float>(); std::ssize(ranges) < numbers.rows(); at += 2) {
        if (!std::isfinite(at[0]) || !std::isfinite(at[1]) || at[0] > at[1])
          reject("memory policy mesa: expected finite ranges of {}, the least value first, got [{}, {}]", key, at[0],
                 at[1]);
        ranges.push_back({at[0], at[1]});
      }
      running[key] = {.decay = decay_, .ranges = std::move(ranges)};
    }
    running_ = std::move(running);
  }

 private:
  struct Kind {
    std::string_view name;
    std::vector<std::string_view> ops;
    std::string_view meaning;
  };
  static const std::vector<Kind> kinds;

  bool codes(const SavedTensorInfo& facts) const override {
    return std::any_of(facts.users.begin(), facts.users.end(), [&](const Reader& user) {
      return user.need != Need::sign && std::find(off_.begin(), off_.end(), user.op.text()) == off_.end();
    });
  }
  quant::QuantConfig coding_of(const SavedTensorInfo& facts) override {
    return {.bits = static_cast<int>(bits_), .grouping = column_groups(facts, group_size_)};
  }
  RunningRanges* running_of(const SavedTensorInfo& facts, const quant::QuantConfig& coding) override {
    if (coding.grouping.kind != quant::Grouping::Kind::column) return nullptr;
    RunningRanges& running = running_[facts.key()];
    running.decay = decay_;
    return &running;
  }

  std::int64_t bits_, group_size_;
  double decay_;
  std::vector<std::string_view> off_;  // ops
  std::map<std::string, RunningRanges> running_;
};

const std::vector<Mesa::Kind> Mesa::kinds{
    {"linear", {"linear"}, "whether inputs of linear layers are coded"},
    {"convolution", {"conv2d"}, "whether inputs of convolutions are coded"},
    {"matmul", {"matmul", "attention"}, "whether operands of attention's products are coded"},
    {"softmax", {"softmax"}, "whether probabilities are coded"},
    {"activation", {"gelu", "silu", "sigmoid", "tanh"}, "whether inputs of activations are coded"},
    {"norm",
     {"layer_norm", "batch_norm", "batch_norm_relu", "batch_norm_add_relu", "frozen_batch_norm",
      "frozen_batch_norm_relu"},
     "whether inputs of norms are coded"}};

/// What a budget has been turned into: so many bits for every tensor that no rule speaks of, `exact_bits` for the
/// tensor itself. Whoever reads a configuration chooses them.
class Auto final : public SameBits {
 public:
  static constexpr std::string_view policy_name = "auto";
  static std::vector<Setting> settings() {
    return {
        {"bits",
         static_cast<double>(exact_bits),
         {.low = 1, .high = exact_bits, .below_high = false, .whole = true},
         "of an element, chosen to fit the budget; 32: exact"},
        {"codes", true, {}, "whether tensors may be coded; otherwise only recomputation, which is exact, is chosen"},
        {"left_over",
         0.0,
         {.low = 0, .whole = true},
         "of the budget, in bytes: what the plan could not use, where that is more than 5 %"},
        group_size_setting()};
  }
  explicit Auto(const Settings& settings) : SameBits(settings) {
    if (const double bits = settings.number("bits"); bits > 8 && bits != exact_bits)
      reject("memory policy auto: bits expected 1 to 8, or {} for the tensors themselves, got {}", exact_bits, bits);
  }
  std::string_view name() const override { return policy_name; }
};

const RegisterPolicy<Auto> automatic;
const RegisterPolicy<Fixed> fixed;
const RegisterPolicy<Mesa> mesa;

}  // namespace
}  // namespace lacuna
