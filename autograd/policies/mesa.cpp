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

enum class Ranges : std::uint8_t { running, sample };
enum class Groups : std::uint8_t { head, tensor };
enum class Rounds : std::uint8_t { stochastic, nearest };

std::array<std::pair<std::string_view, Ranges>, 2> names_of(Ranges) {
  return {{{"running", Ranges::running}, {"sample", Ranges::sample}}};
}
std::array<std::pair<std::string_view, Groups>, 2> names_of(Groups) {
  return {{{"head", Groups::head}, {"tensor", Groups::tensor}}};
}
std::array<std::pair<std::string_view, Rounds>, 2> names_of(Rounds) {
  return {{{"stochastic", Rounds::stochastic}, {"nearest", Rounds::nearest}}};
}

struct MesaOptions {
  int bits = 8;
  double decay = 0.9;
  Ranges ranges = Ranges::running;
  Groups groups = Groups::head;
  Rounds rounding = Rounds::stochastic;
  bool symmetric = false;
  std::int64_t group_size = default_group_size;
  bool linear = true, convolution = true, matmul = true, softmax = true, activation = true, norm = true;

  static Fields fields();
};

/// Whether a setting with two possible words is the second; rejects other words.
struct Switch {
  std::string_view name;
  bool MesaOptions::*on;
  OpKind kind;
  std::string_view help;
};
constexpr std::array switches{
    Switch{"linear", &MesaOptions::linear, OpKind::linear, "quantize inputs of linear layers"},
    Switch{"convolution", &MesaOptions::convolution, OpKind::convolution, "quantize inputs of convolutions"},
    Switch{"matmul", &MesaOptions::matmul, OpKind::matmul, "quantize the operands of attention's matrix products"},
    Switch{"softmax", &MesaOptions::softmax, OpKind::softmax, "quantize attention probabilities"},
    Switch{"activation", &MesaOptions::activation, OpKind::activation, "quantize inputs of activation functions"},
    Switch{"norm", &MesaOptions::norm, OpKind::norm, "quantize inputs of norms"}};

Fields MesaOptions::fields() {
  Fields all{field("bits", &MesaOptions::bits, between(1, 8), "bits per element"),
             field("decay", &MesaOptions::decay, below(1), "decay of the running estimate of a range"),
             field("ranges", &MesaOptions::ranges, "where ranges come from: running estimates, or each sample"),
             field("groups", &MesaOptions::groups,
                   "elements that share a range: a head or a group of channels (`head`), or the whole tensor"),
             field("rounding", &MesaOptions::rounding, "rounding mode; `nearest` is biased"),
             field("symmetric", &MesaOptions::symmetric, "whether ranges are symmetric about zero"),
             field("group_size", &MesaOptions::group_size, group_sizes,
                   "elements that share a range where channel groups are too narrow")};
  for (const Switch& one : switches) all.push_back(field(one.name, one.on, one.help));
  return all;
}

/// Quantizes to 8 bits with running ranges per head or per run of channels, updated with a decay. Values outside the
/// estimated range saturate. The settings `ranges`, `rounding`, `symmetric`, `groups` and `decay` are the choices that
/// the paper compares (tables 2 to 6); the defaults are Mesa's own. Each kind of op can be switched off, as in the
/// paper's ablation (table 7): a tensor that only such ops read is held as by `exact`. Tensors that other ops read, and
/// inputs of recomputed regions, are quantized.
class Mesa final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "mesa";
  explicit Mesa(const MesaOptions& options)
      : QuantizingPolicy(true, takes_slopes(options.bits)),
        bits_(options.bits),
        group_size_(options.group_size),
        decay_(options.decay),
        by_sample_(options.ranges == Ranges::sample),
        by_tensor_(options.groups == Groups::tensor),
        quantizer_(options.rounding == Rounds::nearest ? "nearest" : "stochastic"),
        symmetric_(options.symmetric) {
    if (by_sample_ && symmetric_) reject("memory policy mesa: symmetric goes with ranges: running, got ranges: sample");
    for (const Switch& one : switches)
      if (!(options.*one.on)) off_.insert(one.kind);
  }
  std::string_view name() const override { return policy_name; }

  std::map<std::string, Tensor> state() const override {
    std::map<std::string, Tensor> state;
    for (const auto& [key, tensor] : running_) {
      const RunningRanges& running = tensor.ranges;
      std::vector<float> numbers;  // [groups, 2]
      for (const quant::Range& range : running.ranges) numbers.insert(numbers.end(), {range.min, range.max});
      if (!numbers.empty())
        state.emplace(key, Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size() / 2), 2}));
    }
    return state;
  }
  void set_state(const std::map<std::string, Tensor>& state) override {
    std::map<std::string, Running> running;
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
      running[key].ranges.ranges = std::move(ranges);
    }
    running_ = std::move(running);
  }
  TensorFigures figures() const override {
    TensorFigures figures;
    for (const auto& [key, tensor] : running_) {
      const RunningRanges& running = tensor.ranges;
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
  struct Running {
    RunningRanges ranges{};
    std::uint64_t pass = 0;              // the last forward pass that moved them
    std::vector<quant::Range> before{};  // what they were then
    RunningRanges again{};               // moved where the pass quantizes the tensor once more, and forgotten
  };

  bool applies_to(const SavedTensorInfo& info) const override {
    return std::ranges::any_of(
        info.readers, [&](const Reader& reader) { return reader.need != Need::sign && !off_.contains(reader.kind); });
  }
  quant::QuantConfig config_of(const SavedTensorInfo& info) override {
    return {.bits = bits_, .grouping = groups_of(info), .quantizer = quantizer_};
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
    Running& running = running_[info.key()];
    running.ranges.decay = decay_;
    running.ranges.symmetric = symmetric_;
    // A region that backward recomputes twice has the same codes both times. Tensors of no tape have no pass.
    if (info.pass != 0 && info.pass == running.pass) {
      running.again = running.ranges;
      running.again.ranges = running.before;
      return &running.again;
    }
    running.pass = info.pass;
    running.before = running.ranges.ranges;
    return &running.ranges;
  }

  int bits_;
  std::int64_t group_size_;
  double decay_;
  bool by_sample_, by_tensor_;
  std::string_view quantizer_;
  bool symmetric_;
  std::set<OpKind> off_;
  std::map<std::string, Running> running_;
};

const RegisterPolicy<Mesa, MesaOptions> mesa;

}  // namespace
}  // namespace lacuna
