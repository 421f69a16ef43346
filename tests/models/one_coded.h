// A policy that tells what the codes of one tensor do.
#pragma once

#include "autograd/policies/lossless.h"
#include "autograd/policies/quantizing.h"

#include <string>

namespace lacuna::test {

/// Holds one tensor in few bits, everything else exactly.
class OneCoded final : public MemoryPolicy {
 public:
  OneCoded(std::string key, int bits) : MemoryPolicy(true), key_(std::move(key)), bits_(bits) {}
  std::string_view name() const override { return "one coded"; }
  Hold decide(const SavedTensorInfo& info) override {
    const Hold exact = beside_quantized(decide_exactly(info), info);
    if (exact.kind != Hold::keep || info.key() != key_ || !worth_quantizing(info)) return exact;
    return hold_quantized(exact, info, run_config(info, bits_, 256));
  }

 private:
  std::string key_;
  int bits_;
};

}  // namespace lacuna::test
