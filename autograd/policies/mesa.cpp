// The policy `mesa`: Pan et al. 2021, "Mesa: a memory-saving training framework for transformers".
#include "autograd/policies/quantizing.h"
#include "core/op.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lacuna {
namespace {

/// 8 bits, ranges by head and by runs of channels, carried from step to step with a decay. Values outside the estimated
/// range saturate. Each kind of op can be switched off, as in the paper's ablation (table 7): a tensor that only such
/// ops read is held as `exact` holds it. Tensors that other ops read, and inputs of recomputed regions, are quantized.
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
      : QuantizingPolicy(true, takes_slopes(settings.number("bits"))),
        bits_(settings.whole_number("bits")),
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

  bool applies_to(const SavedTensorInfo& info) const override {
    return std::any_of(info.readers.begin(), info.readers.end(), [&](const Reader& user) {
      return user.need != Need::sign && std::find(off_.begin(), off_.end(), user.op.text()) == off_.end();
    });
  }
  quant::QuantConfig config_of(const SavedTensorInfo& info) override {
    return {.bits = static_cast<int>(bits_), .grouping = column_groups(info, group_size_)};
  }
  RunningRanges* running_of(const SavedTensorInfo& info, const quant::QuantConfig& config) override {
    if (config.grouping.kind != quant::Grouping::Kind::columns) return nullptr;
    RunningRanges& running = running_[info.key()];
    running.decay = decay_;
    return &running;
  }

  std::int64_t bits_, group_size_;
  double decay_;
  std::vector<std::string_view> off_;  // ops
  std::map<std::string, RunningRanges> running_;
};

const std::vector<Mesa::Kind> Mesa::kinds{
    {"linear", {"linear", "scaled_linear"}, "whether inputs of linear layers are quantized"},
    {"convolution", {"conv2d", "depthwise_conv2d"}, "whether inputs of convolutions are quantized"},
    {"matmul",
     {"matmul", "attention", "cross_attention", "sequence_attention", "window_attention"},
     "whether operands of attention's products are quantized"},
    {"softmax", {"softmax"}, "whether probabilities are quantized"},
    {"activation", {"gelu", "silu", "sigmoid", "tanh"}, "whether inputs of activations are quantized"},
    {"norm",
     {"layer_norm", "batch_norm", "batch_norm_relu", "batch_norm_add_relu", "frozen_batch_norm",
      "frozen_batch_norm_relu"},
     "whether inputs of norms are quantized"}};

const RegisterPolicy<Mesa> mesa;

}  // namespace
}  // namespace lacuna
