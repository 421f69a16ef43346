// The policy `fixed`: the same number of bits for every tensor.
#include "autograd/policies/quantizing.h"

namespace lacuna {
namespace {

struct FixedOptions {
  int bits = 4;
  std::int64_t group_size = default_group_size;

  static Fields fields() {
    return {field("bits", &FixedOptions::bits, between(1, 8), "bits per element"),
            field("group_size", &FixedOptions::group_size, group_sizes, group_size_help)};
  }
};

class Fixed final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "fixed";
  explicit Fixed(const FixedOptions& options) : QuantizingPolicy(true, takes_slopes(options.bits)), options_(options) {}
  std::string_view name() const override { return policy_name; }

 private:
  quant::QuantConfig config_of(const SavedTensorInfo& info) override {
    return run_config(info, options_.bits, options_.group_size);
  }

  FixedOptions options_;
};

const RegisterPolicy<Fixed, FixedOptions> fixed;

}  // namespace
}  // namespace lacuna
