// The lossless policies `keep` and `exact`, whose gradients are bitwise identical.
#include "autograd/policies/lossless.h"

namespace lacuna {

Hold decide_exactly(const SavedTensorInfo& info) {
  constexpr int longest_chain = 3;  // a longer one saves little more and makes backward hold all its links at once
  const bool is_cheap = info.can_rematerialize && info.chain <= longest_chain;
  // A dropped tensor cannot be a link of a chain, as a ReLU between a norm and a resize is.
  if (info.optional && (!is_cheap || info.results_unread)) return {.kind = Hold::drop};
  if (is_cheap) return {.kind = Hold::rematerialize};
  return {.kind = info.need == Need::sign ? Hold::sign_mask : Hold::keep};
}

bool can_offload(const Hold& hold, const SavedTensorInfo& info) {
  constexpr std::int64_t least_bytes = 16384;
  const bool has_bytes = hold.kind == Hold::keep || (hold.kind == Hold::quantize && hold.slopes == nullptr);
  return has_bytes && !info.parameter && !info.borrowed && info.region.text().empty() && info.bytes >= least_bytes;
}

namespace {

/// Keeps every tensor that backward reads, as PyTorch does.
class Keep final : public MemoryPolicy {
 public:
  static constexpr std::string_view policy_name = "keep";
  explicit Keep(const NoOptions&) {}
  std::string_view name() const override { return policy_name; }
  Hold decide(const SavedTensorInfo& info) override { return {.kind = info.optional ? Hold::drop : Hold::keep}; }
};

/// Rematerializes tensors that are cheap to recompute, and keeps one bit per element if only signs are needed.
/// Gradients are bitwise those of `keep`.
class Exact final : public MemoryPolicy {
 public:
  static constexpr std::string_view policy_name = "exact";
  explicit Exact(const NoOptions&) {}
  std::string_view name() const override { return policy_name; }
  Hold decide(const SavedTensorInfo& info) override { return decide_exactly(info); }
};

const RegisterPolicy<Keep, NoOptions> keep;
const RegisterPolicy<Exact, NoOptions> exact;

}  // namespace
}  // namespace lacuna
