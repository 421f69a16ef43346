// Which tensors may be quantized, and with which groups: what the lossy policies share.
#pragma once

#include "autograd/policies/grouping.h"

namespace lacuna {

/// Whether the tensor may be quantized: a floating-point value that backward may read approximately, large enough that
/// its bytes matter. Never parameters, integers, statistics and masks.
bool can_quantize(const SavedTensorInfo& info);
/// The same, without tensors of one vector a sample, such as the class token's alone or the input of the classifier:
/// those are few bytes, and the whole gradient passes through them. Only a rule quantizes them.
bool worth_quantizing(const SavedTensorInfo& info);

/// Quantizes where `otherwise` keeps; rematerializes and masks as it does. An error in the sign of an activation is an
/// error of the whole gradient that passes there: the exact signs are kept besides, for the readers that need them.
Hold hold_quantized(Hold otherwise, const SavedTensorInfo& info, const quant::QuantConfig& config);

/// A policy's answer where other tensors may be quantized: signs that `hold` would leave to be found from such tensors
/// are kept, since values that come from quantized ones have other signs.
Hold beside_quantized(const Hold& hold, const SavedTensorInfo& info);

/// The slopes of the curve (GELU, SiLU) whose backward is the tensor's only reader, so that 2 bits an element are
/// enough; null if something reads the values, as a trained layer behind the curve does.
const quant::SlopeLevels* slopes_of(const SavedTensorInfo& info);

/// Whether a policy of so many bits holds slopes in their place, where those are enough: 8 bits err less, 1 bit takes
/// less.
constexpr bool takes_slopes(double bits) { return bits >= 2 && bits < 8; }

/// The setting `group_size` of every policy that quantizes.
Setting group_size_setting(
    std::string_view meaning = "elements that share a range; with 3 bits and fewer four times as many");

/// Quantizes what `exact` would keep, as `config_of` says.
class QuantizingPolicy : public MemoryPolicy {
 public:
  Hold decide(const SavedTensorInfo& info) final;

 protected:
  /// `slopes`: holds slopes (slopes_of) where they are enough.
  explicit QuantizingPolicy(bool quantizes = true, bool slopes = false)
      : MemoryPolicy(quantizes), holds_slopes_(slopes) {}
  /// Whether the policy touches a tensor that can be quantized; others are held as `exact` holds them.
  virtual bool applies_to(const SavedTensorInfo&) const { return true; }
  /// Called for tensors that will be quantized, no others.
  virtual quant::QuantConfig config_of(const SavedTensorInfo& info) = 0;
  /// The ranges that are carried from step to step, or null.
  virtual RunningRanges* running_of(const SavedTensorInfo&, const quant::QuantConfig&) { return nullptr; }

 private:
  bool holds_slopes_;
};

}  // namespace lacuna
