// The policy that gives each tensor the bits it needs: GACT (Liu et al. 2022), measured in the ordinary backward pass.
#include "autograd/plan/bit_allocation.h"
#include "autograd/policies/quantizing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

/// QuantizedTensor of `bits` an element on average: what as many bits everywhere take, ranges and means included, is
/// divided among the tensors so that the variance of the gradient is least (GACT, equation 7, solved by
/// `allocate_bits`). What a tensor's bits are worth is measured every so many steps: while backward runs, each op's
/// backward runs once more with coarser codes, and the change of its gradients is noted; in a trial pass over part of
/// the batch if there is one, else in the pass itself. Or, as GACT does, by a pass over the batch for each tensor
/// (DrawStudy). Before the first measurement every tensor gets as many whole bits as the average allows with the ranges
/// within it.
class Adaptive final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "adaptive";
  static std::vector<Setting> settings() {
    return {
        {"bits",
         4.0,
         {.low = 1.5, .high = 8, .below_high = false},
         "average of an element: the bytes of `fixed` with as many are divided"},
        group_size_setting(),
        {"measure_every",
         200.0,
         {.low = 1, .whole = true},
         "backward passes, at least, from one measurement of the sensitivities to the next: in the first of a step"},
        {"by_draws", false, {}, "whether they are measured by a pass more for each tensor, as GACT does"},
        {"smoothing", 0.5, below_one, "how much of the sensitivities stays when they are measured again"}};
  }
  explicit Adaptive(const Settings& settings)
      : bits_(settings.number("bits")),
        group_size_(settings.whole_number("group_size")),
        measure_every_(settings.whole_number("measure_every")),
        by_draws_(settings.flag("by_draws")),
        smoothing_(settings.number("smoothing")) {}
  std::string_view name() const override { return policy_name; }

  std::int64_t measures_every() const override { return measure_every_; }
  void begin_pass(bool first_of_step) override { continues_step_ = !first_of_step; }
  bool begin_study() override { return in_trial_ = measures() && !by_draws_; }
  SensitivityRecord* sensitivity_record() override {
    record_ = {};
    return measures() && !drawing_ ? &record_ : nullptr;
  }
  DrawStudy* draw_study() override {
    drawing_ = measures() && by_draws_;
    return drawing_ ? &study_ : nullptr;
  }
  void end_study() override {
    std::map<std::string, double> sensitivities = record_.sensitivities();
    for (const auto& [key, variance] : study_.variances)
      sensitivities[key] = variance / code_variance(held_bits(tensors_[key]));
    learn(sensitivities);
    study_ = {};
    record_ = {};
    in_trial_ = drawing_ = false;
    studied_ = true;
  }

  void end_pass() override {
    const bool measured = studied_ || measures();
    if (measures()) learn(record_.sensitivities());
    if (studied_ || stale_) plan();  // for what the whole pass has coded
    passes_ = measured ? 1 : passes_ + 1;
    in_trial_ = drawing_ = studied_ = stale_ = continues_step_ = false;  // also where a study ended in an error
    study_ = {};
    record_ = {};
  }

  std::map<std::string, Tensor> state() const override {
    std::map<std::string, Tensor> state;
    const std::vector<std::int64_t> passes{passes_};
    state.emplace("passes", Tensor::from(passes, {1}));
    const std::vector<double> planned_for{bits_, static_cast<double>(group_size_)};
    state.emplace("planned for", Tensor::from(planned_for, {2}));
    for (const auto& [key, tensor] : tensors_) {
      const std::vector<double> numbers{static_cast<double>(tensor.choice.elements),
                                        static_cast<double>(tensor.choice.range_bytes),
                                        tensor.sensitivity,
                                        tensor.measured ? 1.0 : 0.0,
                                        static_cast<double>(tensor.bits),
                                        static_cast<double>(tensor.choice.hadamard_bytes)};
      state.emplace(std::string(tensor_prefix) + key, Tensor::from(numbers, {numbers_a_tensor}));
    }
    return state;
  }
  void set_state(const std::map<std::string, Tensor>& state) override {
    std::map<std::string, Planned> tensors;
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
        const double* const numbers = numbers_of<double>(name, values, numbers_a_tensor);
        tensors[name.substr(tensor_prefix.size())] = planned_from(name, numbers);
      } else {
        reject("memory policy adaptive: expected `passes`, `planned for` and tensors, got \"{}\"", name);
      }
    }
    // Other bits or groups were asked for then: the first pass has no plan, and its end makes one of what is known.
    if (stale)
      for (auto& [key, tensor] : tensors) tensor.bits = 0;
    tensors_ = std::move(tensors);
    passes_ = passes;
    stale_ = stale;
  }

 private:
  // In a checkpoint.
  static constexpr std::int64_t numbers_a_tensor = 6;
  static constexpr std::string_view tensor_prefix = "tensor ";

  struct Planned {
    BitChoice choice{};
    double sensitivity = 0;  // as BitChoice has it
    bool measured = false;
    int bits = 0;
  };

  template <class T>
  static const T* numbers_of(const std::string& name, const Tensor& values, std::int64_t count) {
    if (values.dtype() != dtype_of<T>() || values.count() != count)
      reject(
          "memory policy adaptive: expected {} {} for \"{}\", got {} {}; another version may have written it, and can "
          "go on from it",
          name_of(dtype_of<T>()), Shape{count}, name, name_of(values.dtype()), values.shape());
    return values.data<T>();
  }
  /// `numbers` [numbers_a_tensor], as `state` has them.
  static Planned planned_from(const std::string& name, const double* numbers) {
    const auto is_count = [&](std::size_t i, double most) {
      return numbers[i] >= 0 && numbers[i] <= most && numbers[i] == std::floor(numbers[i]);
    };
    constexpr double exactly_counted = 0x1p53, most_bits = 8;
    const bool counts = is_count(0, exactly_counted) && is_count(1, exactly_counted) && is_count(3, 1) &&
                        is_count(4, most_bits) && is_count(5, exactly_counted);
    if (!counts || !std::isfinite(numbers[2]) || numbers[2] < 0)
      reject(
          "memory policy adaptive: expected elements, bytes of ranges, a sensitivity, whether it was measured, "
          "bits and bytes of means for \"{}\", got {}",
          name, fmt::join(std::span(numbers, numbers_a_tensor), ", "));
    return {.choice = {.elements = static_cast<std::int64_t>(numbers[0]),
                       .range_bytes = static_cast<std::int64_t>(numbers[1]),
                       .hadamard_bytes = static_cast<std::int64_t>(numbers[5])},
            .sensitivity = numbers[2],
            .measured = numbers[3] != 0,
            .bits = static_cast<int>(numbers[4])};
  }

  int whole_bits() const { return static_cast<int>(bits_); }
  bool measures() const { return (passes_ == 0 || passes_ >= measure_every_) && !studied_ && !continues_step_; }

  void learn(const std::map<std::string, double>& sensitivities) {
    for (const auto& [key, value] : sensitivities) {
      if (!study_.coded.contains(key) || !std::isfinite(value)) continue;  // a rule's; a pass that diverged
      Planned& tensor = tensors_[key];
      tensor.sensitivity = tensor.measured ? smoothing_ * tensor.sensitivity + (1 - smoothing_) * value : value;
      tensor.measured = true;
    }
    plan();
  }

  /// What is measured is what coarser codes would do, and there are none coarser than one bit.
  int held_bits(const Planned& tensor) const { return measures() ? std::max(tensor.bits, 2) : tensor.bits; }

  std::uint64_t draw_of(const SavedTensorInfo& facts) const override { return facts.key() == study_.redrawn ? 1 : 0; }

  quant::QuantConfig coding_of(const SavedTensorInfo& facts) override {
    Planned& tensor = tensors_[facts.key()];
    tensor.choice = bit_choice(facts, group_size_);
    // Not planned yet: whole bits below the average, ranges within it. At an average of 4 these are 3, which a
    // measurement by draws needs: from 4 on codes hold no means, and where those are nearly all, it would speak of them
    // alone.
    if (tensor.bits == 0) {
      const std::int64_t ranges = std::max(tensor.choice.range_bytes, tensor.choice.hadamard_bytes);
      const double own = bits_ - 8.0 * static_cast<double>(ranges) / static_cast<double>(tensor.choice.elements);
      tensor.bits = std::clamp(static_cast<int>(std::floor(own)), 1, 8);
    }
    study_.coded.insert(facts.key());
    return run_config(facts, in_trial_ ? 8 : held_bits(tensor), group_size_);
  }

  /// Divides the bytes among the tensors of this pass.
  void plan() {
    std::vector<BitChoice> choices;
    std::vector<Planned*> tensors;
    double elements = 0, sensitivity = 0, known = 0;
    std::int64_t ranges = 0;  // bytes, of as many bits everywhere
    for (const std::string& key : study_.coded) {
      Planned& tensor = tensors_[key];
      elements += static_cast<double>(tensor.choice.elements);
      ranges += quant::uses_hadamard(whole_bits()) ? tensor.choice.hadamard_bytes : tensor.choice.range_bytes;
      if (tensor.measured) {
        sensitivity += tensor.sensitivity;
        known += static_cast<double>(tensor.choice.elements);
      }
      tensors.push_back(&tensor);
    }
    // What was never measured (on `meta` nothing is) counts by its size.
    const double usual = known > 0 && sensitivity > 0 ? sensitivity / known : 1;
    for (const Planned* tensor : tensors) {
      choices.push_back(tensor->choice);
      const double by_size = usual * static_cast<double>(tensor->choice.elements);
      choices.back().sensitivity =
          tensor->measured && sensitivity > 0 ? std::max(tensor->sensitivity, least_share_of_usual * by_size) : by_size;
    }
    const BitPlan plan = allocate_bits(choices, static_cast<std::int64_t>(elements * bits_ / 8) + ranges);
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i]->bits = plan.bits[i];
  }

  double bits_;
  std::int64_t group_size_, measure_every_;
  bool by_draws_;
  double smoothing_;
  std::int64_t passes_ = 0;      // since the last measurement, with the one that measured
  bool continues_step_ = false;  // the pass is not the first of its step
  bool in_trial_ = false;        // a trial pass runs, which measures
  bool drawing_ = false;         // passes for a DrawStudy run
  bool studied_ = false;         // what the pass was to measure has been measured before it
  bool stale_ = false;           // sensitivities are known, but no plan is for these bits and groups
  std::map<std::string, Planned> tensors_;
  SensitivityRecord record_;
  DrawStudy study_;  // knows the tensors of this pass
};

const RegisterPolicy<Adaptive> adaptive;

}  // namespace
}  // namespace lacuna
