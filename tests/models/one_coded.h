// A policy that tells what the codes of one tensor do.
#pragma once

#include "autograd/coded_policies.h"
#include "autograd/lossless_policies.h"

#include <string>

namespace lacuna::test {

/// Holds one tensor in few bits, everything else exactly.
class OneCoded final : public MemoryPolicy {
 public:
  OneCoded(std::string key, int bits) : key_(std::move(key)), bits_(bits) {}
  std::string_view name() const override { return "one coded"; }
  Decision settle(const SlotFacts& facts) override {
    const Decision exact = beside_codes(settle_exactly(facts), facts);
    if (exact.hold != Hold::keep || facts.key() != key_ || !worth_coding(facts)) return exact;
    return hold_coded(exact, facts, run_coding(facts, bits_, 256));
  }
  bool codes_anything() const override { return true; }

 private:
  std::string key_;
  int bits_;
};

}  // namespace lacuna::test
