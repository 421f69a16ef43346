// The policy `fixed`: the same number of bits for every tensor.
#include "autograd/policies/quantizing.h"

namespace lacuna {
namespace {

class Fixed final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "fixed";
  static std::vector<Setting> settings() {
    return {{"bits", 4.0, {.low = 1, .high = 8, .below_high = false, .whole = true}, "of an element"},
            group_size_setting()};
  }
  explicit Fixed(const Settings& settings)
      : QuantizingPolicy(true, takes_slopes(settings.number("bits"))),
        bits_(static_cast<int>(settings.whole_number("bits"))),
        group_size_(settings.whole_number("group_size")) {}
  std::string_view name() const override { return policy_name; }

 private:
  quant::QuantConfig config_of(const SavedTensorInfo& info) override { return run_config(info, bits_, group_size_); }

  int bits_;
  std::int64_t group_size_;
};

const RegisterPolicy<Fixed> fixed;

}  // namespace
}  // namespace lacuna
