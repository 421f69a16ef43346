// The common part of the lossy policies: which tensors may be quantized, and how.
#pragma once

#include "autograd/policies/grouping.h"

namespace lacuna {

/// Whether the tensor may be quantized: it is floating-point, backward accepts approximate values, and it is large
/// enough to matter. Parameters, integers, statistics and masks never are.
bool can_quantize(const SavedTensorInfo& info);
/// Whether a policy should quantize the tensor: can_quantize, except for tensors with one vector per sample, such as
/// the class token or the classifier's input. These are few bytes, and the whole gradient passes through them; only a
/// rule quantizes them.
bool worth_quantizing(const SavedTensorInfo& info);

/// Quantizes if `otherwise` keeps the tensor; other answers stay. Exact signs are kept in addition for readers that
/// need them, since a wrong sign of an activation makes the whole gradient wrong there.
Hold hold_quantized(Hold otherwise, const SavedTensorInfo& info, const quant::QuantConfig& config);

/// Adjusts `hold` if other tensors may be quantized: keeps signs that would otherwise be recomputed from quantized
/// tensors, since these may differ from the exact signs.
Hold beside_quantized(const Hold& hold, const SavedTensorInfo& info);

/// The slope levels of the activation (GELU, SiLU) whose backward is the tensor's only reader, so that 2 bits per
/// element suffice; null if another op reads the values, such as a trained layer after the activation.
const quant::SlopeLevels* slopes_of(const SavedTensorInfo& info);

/// Whether a policy with this number of bits holds slopes in place of values where slopes suffice. 8 bits have a
/// smaller error, and 1 bit takes less memory.
constexpr bool takes_slopes(double bits) { return bits >= 2 && bits < 8; }

// The option `group_size` of every policy that quantizes.
inline constexpr std::int64_t default_group_size = 256;
inline constexpr NumberRange group_sizes = between(64, 1024);
inline constexpr std::string_view group_size_help =
    "elements that share a range; with 3 bits and fewer four times as many";

/// A policy that quantizes the tensors `exact` would keep, with the configuration from `config_of`.
class QuantizingPolicy : public MemoryPolicy {
 public:
  Hold decide(const SavedTensorInfo& info) final;

 protected:
  /// `slopes`: holds slopes (slopes_of) where they suffice.
  explicit QuantizingPolicy(bool quantizes = true, bool slopes = false)
      : MemoryPolicy(quantizes), holds_slopes_(slopes) {}
  /// Whether the policy quantizes a tensor that can be quantized. If not, the tensor is held as by `exact`.
  virtual bool applies_to(const SavedTensorInfo&) const { return true; }
  /// The configuration of a tensor. Called only for tensors that will be quantized.
  virtual quant::QuantConfig config_of(const SavedTensorInfo& info) = 0;
  /// The running ranges of a tensor, or null.
  virtual RunningRanges* running_of(const SavedTensorInfo&, const quant::QuantConfig&) { return nullptr; }

 private:
  bool holds_slopes_;
};

}  // namespace lacuna
