// Any text as a string of augmentations: it is refused with an Error of the input, or its steps have all they need.
#include "core/error.h"
#include "data/augment/policies.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  try {
    const augment::Policy policy = augment::parse_policy(std::string_view(reinterpret_cast<const char*>(bytes), size));
    if (policy.steps.empty() == policy.chains.empty() || policy.layers < 1) std::abort();
    for (const augment::Step& step : policy.steps)
      if (step.operation == nullptr || !(step.magnitude >= 0 && step.deviation >= 0)) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
