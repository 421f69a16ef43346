#include "autograd/policies/adaptive.h"

#include "autograd/plan/bit_allocation.h"
#include "autograd/policies/rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace lacuna {
namespace {

// Numbers per tensor in a checkpoint.
constexpr std::int64_t numbers_a_tensor = 6;
constexpr std::string_view tensor_prefix = "tensor ";

template <class T>
const T* numbers_of(const std::string& name, const Tensor& values, std::int64_t count) {
  if (values.dtype() != dtype_of<T>() || values.count() != count)
    reject(
        "memory policy adaptive: expected {} {} for \"{}\", got {} {}; another version may have written it, and can "
        "go on from it",
        name_of(dtype_of<T>()), Shape{count}, name, name_of(values.dtype()), values.shape());
  return values.data<const T>();
}

}  // namespace

Fields AdaptiveOptions::fields() {
  return {field("bits", &AdaptiveOptions::bits, between(1.5, 8),
                "average bits per element: the bytes of `fixed` with as many bits are divided among the tensors"),
          field("group_size", &AdaptiveOptions::group_size, group_sizes, group_size_help),
          field("measure_every", &AdaptiveOptions::measure_every, at_least(1),
                "least number of backward passes between two calibrations"),
          field("by_draws", &AdaptiveOptions::by_draws,
                "calibrate with one extra forward and backward pass per tensor (GACT)"),
          field("smoothing", &AdaptiveOptions::smoothing, below(1),
                "weight of the earlier sensitivities when they are measured again")};
}

Adaptive::Adaptive(const AdaptiveOptions& options)
    : QuantizingPolicy(true, takes_slopes(options.bits)),
      bits_(options.bits),
      group_size_(options.group_size),
      calibrate_every_(options.measure_every),
      by_draws_(options.by_draws),
      smoothing_(options.smoothing) {}

quant::QuantConfig Adaptive::config_of(const SavedTensorInfo& info) {
  if (info.pass != pass_) begin_pass(info.pass);
  Planned& tensor = tensors_[info.key()];
  tensor.choice = bit_choice(info, group_size_);
  // Without a plan yet, the tensor gets the whole bits that fit the average with ranges included. At an average of 4
  // these are 3, which calibration by draws needs: from 4 bits on no means are stored, and if the means are most of the
  // values, calibration would measure only them.
  if (tensor.bits == 0) {
    const std::int64_t ranges = std::ranges::max(tensor.choice.range_bytes);
    const double own = bits_ - 8.0 * static_cast<double>(ranges) / static_cast<double>(tensor.choice.elements);
    tensor.bits = std::clamp(static_cast<int>(std::floor(own)), 1, 8);
  }
  quantized_[info.key()] = info.region;
  int bits = tensor.bits;
  if (calibration_bits_) bits = *calibration_bits_ > 0 ? *calibration_bits_ : std::max(bits, 2);
  return run_config(info, bits, group_size_);
}

void Adaptive::begin_pass(std::uint64_t pass) {
  if (!calibration_bits_) {
    tensors_ = after_pass();
    if (!quantized_.empty()) plan_is_stale_ = false;
  }
  quantized_.clear();
  pass_ = pass;
  if (!calibration_bits_ && !std::exchange(calibrated_, false)) ++passes_;
}

/// The plan after the last pass.
Adaptive::Plan Adaptive::after_pass() const { return plan_is_stale_ && !quantized_.empty() ? divided() : tensors_; }

void Adaptive::calibrate(int bits, const std::function<Calibration()>& measure) {
  begin_pass(0);
  class Scope {
   public:
    Scope(std::optional<int>& place, int value) : place_(place) { place_ = value; }
    ~Scope() { place_.reset(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::optional<int>& place_;
  } const scope(calibration_bits_, bits);
  const Calibration found = measure();
  learn(found.sensitivities);
  gradient_ = found.gradient;
  tensors_ = divided();
  quantized_.clear();
  passes_ = 1;
  calibrated_ = plan_is_stale_ = true;
}

void Adaptive::learn(const Sensitivities& sensitivities) {
  for (const auto& [key, value] : sensitivities) {
    if (!quantized_.contains(key) || !std::isfinite(value)) continue;  // held by a rule, or the pass diverged
    Planned& tensor = tensors_[key];
    tensor.sensitivity = tensor.measured ? smoothing_ * tensor.sensitivity + (1 - smoothing_) * value : value;
    tensor.measured = true;
  }
}

/// Divides the bytes among the tensors of the last pass, separately for those saved in forward and for those of each
/// recomputed region, which exist at other times.
Adaptive::Plan Adaptive::divided() const {
  Plan plan = tensors_;
  std::map<Label, std::vector<Planned*>> groups;  // by region
  double elements = 0, sensitivity = 0;           // sums over measured tensors
  for (const auto& [key, region] : quantized_) {
    Planned& tensor = plan[key];
    groups[region].push_back(&tensor);
    if (!tensor.measured) continue;
    sensitivity += tensor.sensitivity;
    elements += static_cast<double>(tensor.choice.elements);
  }
  // A tensor that was never measured (on `meta` none is) counts by its size.
  const double usual = elements > 0 && sensitivity > 0 ? sensitivity / elements : 1;
  for (const auto& [region, tensors] : groups) {
    std::vector<BitChoice> choices;
    double all = 0;           // elements
    std::int64_t ranges = 0;  // bytes of ranges with equal bits everywhere
    for (const Planned* tensor : tensors) {
      const BitChoice& choice = choices.emplace_back(tensor->choice);
      all += static_cast<double>(choice.elements);
      ranges += choice.range_bytes.at(static_cast<std::size_t>(bits_));
      const double by_size = usual * static_cast<double>(choice.elements);
      choices.back().sensitivity =
          tensor->measured && sensitivity > 0 ? std::max(tensor->sensitivity, least_share_of_usual * by_size) : by_size;
    }
    const BitPlan bits = allocate_bits(choices, static_cast<std::int64_t>(all * bits_ / 8) + ranges);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i]->bits = bits.bits[i];
  }
  return plan;
}

double Adaptive::variance_share() const {
  if (!(gradient_ > 0)) return 0;
  double variance = 0;
  for (const auto& [key, tensor] : after_pass())
    if (tensor.measured && tensor.bits > 0) variance += tensor.sensitivity * code_variance(tensor.bits);
  return variance / gradient_;
}

TensorFigures Adaptive::figures() const {
  TensorFigures figures;
  for (const auto& [key, tensor] : after_pass())
    if (tensor.measured) figures[key] = {{"sensitivity", tensor.sensitivity}, {"bits", tensor.bits}};
  return figures;
}

std::map<std::string, Tensor> Adaptive::state() const {
  std::map<std::string, Tensor> state;
  const std::vector<std::int64_t> passes{passes_};
  state.emplace("passes", Tensor::from(passes, {1}));
  const std::vector<double> planned_for{bits_, static_cast<double>(group_size_)};
  state.emplace("planned for", Tensor::from(planned_for, {2}));
  for (const auto& [key, tensor] : after_pass()) {
    const std::vector<double> numbers{static_cast<double>(tensor.choice.elements),
                                      static_cast<double>(tensor.choice.range_bytes[8]),
                                      tensor.sensitivity,
                                      tensor.measured ? 1.0 : 0.0,
                                      static_cast<double>(tensor.bits),
                                      static_cast<double>(tensor.choice.range_bytes[1])};
    state.emplace(std::string(tensor_prefix) + key, Tensor::from(numbers, {numbers_a_tensor}));
  }
  return state;
}

void Adaptive::set_state(const std::map<std::string, Tensor>& state) {
  const auto planned_from = [](const std::string& name, const double* numbers) {
    const auto is_count = [&](std::size_t i, double most) {
      return numbers[i] >= 0 && numbers[i] <= most && numbers[i] == std::floor(numbers[i]);
    };
    constexpr double exactly_counted = 0x1p53, most_bits = 8;
    const bool counts = is_count(0, exactly_counted) && is_count(1, exactly_counted) && is_count(3, 1) &&
                        is_count(4, most_bits) && is_count(5, exactly_counted);
    if (!counts || !std::isfinite(numbers[2]) || numbers[2] < 0)
      reject(
          "memory policy adaptive: expected elements, bytes of ranges, a sensitivity, whether it was measured, "
          "bits and bytes of ranges for \"{}\", got {}",
          name, fmt::join(std::span(numbers, numbers_a_tensor), ", "));
    BitChoice choice{.elements = static_cast<std::int64_t>(numbers[0])};  // until the next pass sets it
    choice.range_bytes[8] = static_cast<std::int64_t>(numbers[1]);
    choice.range_bytes[1] = static_cast<std::int64_t>(numbers[5]);
    return Planned{
        .choice = choice, .sensitivity = numbers[2], .measured = numbers[3] != 0, .bits = static_cast<int>(numbers[4])};
  };
  Plan tensors;
  std::int64_t passes = 0;
  bool stale = !state.empty();
  for (const auto& [name, values] : state) {
    if (name == "passes") {
      passes = numbers_of<std::int64_t>(name, values, 1)[0];
      if (passes < 0) reject("memory policy adaptive: expected a number of passes, got {}", passes);
    } else if (name == "planned for") {
      const double* const numbers = numbers_of<double>(name, values, 2);
      stale = numbers[0] != bits_ || numbers[1] != static_cast<double>(group_size_);
    } else if (name.starts_with(tensor_prefix)) {
      tensors[name.substr(tensor_prefix.size())] =
          planned_from(name, numbers_of<double>(name, values, numbers_a_tensor));
    } else {
      reject("memory policy adaptive: expected `passes`, `planned for` and tensors, got \"{}\"", name);
    }
  }
  // The state was saved under other bits or groups: the first pass has no plan, and one is made after it.
  if (stale)
    for (auto& [key, tensor] : tensors) tensor.bits = 0;
  tensors_ = std::move(tensors);
  gradient_ = 0;
  passes_ = passes;
  plan_is_stale_ = stale;
  calibrated_ = false;
  quantized_.clear();
}

const Adaptive* adaptive_of(const MemoryPolicy& policy) {
  if (const auto* const ruled = dynamic_cast<const RuledPolicy*>(&policy)) return adaptive_of(ruled->base());
  return dynamic_cast<const Adaptive*>(&policy);
}
Adaptive* adaptive_of(MemoryPolicy& policy) { return const_cast<Adaptive*>(adaptive_of(std::as_const(policy))); }

namespace {
const RegisterPolicy<Adaptive, AdaptiveOptions> adaptive;
}  // namespace

}  // namespace lacuna
