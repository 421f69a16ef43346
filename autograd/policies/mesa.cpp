// The policy `mesa`: Pan et al. 2021, "Mesa: a memory-saving training framework for transformers".
#include "autograd/policies/quantizing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace lacuna {
namespace {

using namespace std::string_literals;

/// Whether a setting with two possible words is the second; rejects other words.
bool chosen(const Settings& settings, std::string_view name, std::string_view first, std::string_view second) {
  const std::string& word = settings.text(name);
  if (word != first && word != second)
    reject("memory policy mesa: {} expected {} or {}, got \"{}\"", name, first, second, word);
  return word == second;
}

/// Quantizes to 8 bits with running ranges per head or per run of channels, updated with a decay. Values outside the
/// estimated range saturate. The settings `ranges`, `rounding`, `symmetric`, `groups` and `decay` are the choices that
/// the paper compares (tables 2 to 6); the defaults are Mesa's own. Each kind of op can be switched off, as in the
/// paper's ablation (table 7): a tensor that only such ops read is held as by `exact`. Tensors that other ops read, and
/// inputs of recomputed regions, are quantized.
class Mesa final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "mesa";
  static std::vector<Setting> settings() {
    std::vector<Setting> all{
        {"bits", 8.0, {.low = 1, .high = 8, .below_high = false, .whole = true}, "of an element"},
        {"decay", 0.9, below_one, "how much of a range's estimate stays when the next step is seen"},
        {"ranges", "running"s, {}, "where ranges come from: estimates over steps (running), or each sample (sample)"},
        {"groups",
         "head"s,
         {},
         "elements that share a range: a head, or columns of channels (head); the whole (tensor)"},
        {"rounding", "stochastic"s, {}, "stochastic or nearest; the latter is biased"},
        {"symmetric", false, {}, "whether ranges are symmetric about zero, as large as the largest magnitude"},
        group_size_setting("elements that share a range where columns are too narrow")};
    for (const Switch& one : switches) all.push_back({one.name, true, {}, one.meaning});
    return all;
  }
  explicit Mesa(const Settings& settings)
      : QuantizingPolicy(true, takes_slopes(settings.number("bits"))),
        bits_(settings.whole_number("bits")),
        group_size_(settings.whole_number("group_size")),
        decay_(settings.number("decay")),
        by_sample_(chosen(settings, "ranges", "running", "sample")),
        by_tensor_(chosen(settings, "groups", "head", "tensor")),
        rounding_(chosen(settings, "rounding", "stochastic", "nearest") ? quant::Rounding::nearest
                                                                        : quant::Rounding::stochastic),
        symmetric_(settings.flag("symmetric")) {
    if (by_sample_ && symmetric_) reject("memory policy mesa: symmetric goes with ranges: running, got ranges: sample");
    for (const Switch& one : switches)
      if (!settings.flag(one.name)) off_.insert(one.kind);
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
      for (const float* at = numbers.data<const float>(); std::ssize(ranges) < numbers.rows(); at += 2) {
        if (!std::isfinite(at[0]) || !std::isfinite(at[1]) || at[0] > at[1])
          reject("memory policy mesa: expected finite ranges of {}, the least value first, got [{}, {}]", key, at[0],
                 at[1]);
        ranges.push_back({at[0], at[1]});
      }
      running[key].ranges = std::move(ranges);
    }
    running_ = std::move(running);
  }
  TensorFigures figures() const override {
    TensorFigures figures;
    for (const auto& [key, running] : running_) {
      if (running.ranges.empty()) continue;
      quant::Range all = running.ranges.front();
      double width = 0;  // mean width of the groups' ranges
      for (const quant::Range& range : running.ranges) {
        all = {std::min(all.min, range.min), std::max(all.max, range.max)};
        width += (range.max - range.min) / static_cast<double>(running.ranges.size());
      }
      figures[key] = {{"min", all.min}, {"max", all.max}, {"range", width}};
    }
    return figures;
  }

 private:
  struct Switch {
    std::string_view name;
    OpKind kind;
    std::string_view meaning;
  };
  static constexpr std::array switches{
      Switch{"linear", OpKind::linear, "whether inputs of linear layers are quantized"},
      Switch{"convolution", OpKind::convolution, "whether inputs of convolutions are quantized"},
      Switch{"matmul", OpKind::matmul, "whether operands of attention's products are quantized"},
      Switch{"softmax", OpKind::softmax, "whether probabilities are quantized"},
      Switch{"activation", OpKind::activation, "whether inputs of activations are quantized"},
      Switch{"norm", OpKind::norm, "whether inputs of norms are quantized"}};

  bool applies_to(const SavedTensorInfo& info) const override {
    return std::ranges::any_of(
        info.readers, [&](const Reader& reader) { return reader.need != Need::sign && !off_.contains(reader.kind); });
  }
  quant::QuantConfig config_of(const SavedTensorInfo& info) override {
    return {.bits = static_cast<int>(bits_), .grouping = groups_of(info), .rounding = rounding_};
  }
  quant::Grouping groups_of(const SavedTensorInfo& info) const {
    if (by_sample_) {
      const std::int64_t sample = info.shape.count() / info.shape.front();
      return {.size = lies_by_heads(info) && !by_tensor_ ? sample / info.shape[1] : sample};
    }
    const quant::Grouping all{.kind = quant::Grouping::Kind::columns, .size = info.shape.back()};
    if (by_tensor_) return all;
    const quant::Grouping columns = column_groups(info, group_size_);
    // Consecutive groups have no running estimate, which a symmetric range requires.
    return symmetric_ && columns.kind == quant::Grouping::Kind::consecutive ? all : columns;
  }
  RunningRanges* running_of(const SavedTensorInfo& info, const quant::QuantConfig& config) override {
    if (config.grouping.kind != quant::Grouping::Kind::columns) return nullptr;
    RunningRanges& running = running_[info.key()];
    running.decay = decay_;
    running.symmetric = symmetric_;
    return &running;
  }

  std::int64_t bits_, group_size_;
  double decay_;
  bool by_sample_, by_tensor_;
  quant::Rounding rounding_;
  bool symmetric_;
  std::set<OpKind> off_;
  std::map<std::string, RunningRanges> running_;
};

const RegisterPolicy<Mesa> mesa;

}  // namespace
}  // namespace lacuna
