// Which tensors codes may stand for, and with which ranges: what the lossy policies share.
#pragma once

#include "autograd/policies/grouping.h"

namespace lacuna {

/// Whether codes may hold the tensor: a floating-point value that backward may read approximately, large enough that
/// its bytes matter. Parameters, integers, statistics and masks never are coded.
bool can_quantize(const SavedTensorInfo& facts);
/// The same, but for one vector a sample, as the class token's alone or what the classifier reads: those are few bytes,
/// and the whole gradient passes through them. Only a rule codes them, and what no op made, as images, while its caller
/// holds it; given up, policies code it in 8 bits.
bool worth_quantizing(const SavedTensorInfo& facts);

/// QuantizedTensor where `otherwise` keeps; derives and masks as it does. An error in the sign of an activation is an
/// error of the whole gradient that passes there: the exact signs are kept besides, where somebody asks for them.
Decision hold_quantized(Decision otherwise, const SavedTensorInfo& facts, const quant::QuantConfig& coding);

/// A policy's answer where tensors may be coded: where it would be derived, or found again, from such ones, the signs
/// that somebody asks for are kept, since what comes of codes has others.
Decision beside_codes(const Decision& decision, const SavedTensorInfo& facts);

/// The setting `group_size` of every policy that codes.
Setting group_size_setting(
    std::string_view meaning = "elements that share a range; with 3 bits and fewer four times as many");

/// Holds by code what `exact` would keep: `bits` and `groups` are asked of the concrete policy.
class QuantizingPolicy : public MemoryPolicy {
 public:
  Decision decide(const SavedTensorInfo& facts) final;
  bool quantizes() const override { return true; }

 protected:
  /// Whether the policy touches a tensor that can be coded; what it does not is held as `exact` holds it.
  virtual bool codes(const SavedTensorInfo&) const { return true; }
  /// Asked for tensors that will be held in codes, no others.
  virtual quant::QuantConfig coding_of(const SavedTensorInfo& facts) = 0;
  /// The ranges that go on from step to step, or null.
  virtual RunningRanges* running_of(const SavedTensorInfo&, const quant::QuantConfig&) { return nullptr; }
  /// Which of the step's draws rounds it.
  virtual std::uint64_t draw_of(const SavedTensorInfo&) const { return 0; }
};

}  // namespace lacuna
