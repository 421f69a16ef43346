// The policy `auto`: a budget, turned into bits for every tensor that no rule speaks of.
#include "autograd/plan/bit_allocation.h"
#include "autograd/policies/quantizing.h"

namespace lacuna {
namespace {

class Auto final : public QuantizingPolicy {
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
  explicit Auto(const Settings& settings)
      : QuantizingPolicy(settings.whole_number("bits") != exact_bits),
        bits_(static_cast<int>(settings.whole_number("bits"))),
        group_size_(settings.whole_number("group_size")) {
    if (bits_ > 8 && bits_ != exact_bits)
      reject("memory policy auto: bits expected 1 to 8, or {} for the tensors themselves, got {}", exact_bits, bits_);
  }
  std::string_view name() const override { return policy_name; }

 private:
  quant::QuantConfig config_of(const SavedTensorInfo& info) override { return run_config(info, bits_, group_size_); }

  int bits_;
  std::int64_t group_size_;
};

const RegisterPolicy<Auto> automatic;

}  // namespace
}  // namespace lacuna
