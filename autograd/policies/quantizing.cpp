#include "autograd/policies/quantizing.h"

#include "autograd/policies/lossless.h"

#include <algorithm>

namespace lacuna {

bool can_quantize(const SavedTensorInfo& info) {
  constexpr std::int64_t least_bytes = 4096;
  return info.need == Need::value && is_floating(info.dtype) && info.source.kind != Source::Kind::extra_output &&
         !info.parameter && !info.borrowed && info.bytes >= least_bytes;
}

bool worth_quantizing(const SavedTensorInfo& info) {
  const std::int64_t vectors = info.shape.rows() / std::max<std::int64_t>(info.shape.front(), 1),
                     heads = lies_by_heads(info) ? info.shape[1] : 1;
  return can_quantize(info) && vectors > heads;
}

Hold hold_quantized(Hold otherwise, const SavedTensorInfo& info, const quant::QuantConfig& config) {
  otherwise.signs =
      std::any_of(info.readers.begin(), info.readers.end(), [](const Reader& user) { return user.need == Need::sign; });
  if (otherwise.kind != Hold::keep) return otherwise;
  otherwise.kind = Hold::quantize;
  otherwise.config = config;
  return otherwise;
}

Hold beside_quantized(const Hold& hold, const SavedTensorInfo& info) {
  const bool is_found_again = hold.kind == Hold::drop || hold.kind == Hold::rematerialize;
  if (!is_found_again || !info.approximate) return hold;
  if (info.need == Need::sign && (hold.kind == Hold::drop || info.results_unread)) return {.kind = Hold::sign_mask};
  return hold.kind == Hold::rematerialize ? hold_quantized(hold, info, {}) : hold;
}

const quant::SlopeLevels* slopes_of(const SavedTensorInfo& info) {
  if (!can_quantize(info) || info.readers.size() != 1 || info.readers.front().rematerializes) return nullptr;
  return info.readers.front().slopes;
}

Hold QuantizingPolicy::decide(const SavedTensorInfo& info) {
  if (!quantizes()) return decide_exactly(info);
  const Hold lossless = beside_quantized(decide_exactly(info), info);
  if (lossless.kind != Hold::keep || !worth_quantizing(info) || !applies_to(info)) return lossless;
  if (holds_slopes_ && info.results_unread)
    if (const quant::SlopeLevels* const slopes = slopes_of(info)) return {.kind = Hold::quantize, .slopes = slopes};
  // Images have 8 bits originally; with fewer, the first layer would be trained on different images.
  if (info.is_input()) return hold_quantized(lossless, info, quant::min_error_config(8, {}));
  const quant::QuantConfig config = config_of(info);
  Hold hold = hold_quantized(lossless, info, config);
  hold.running = running_of(info, config);
  return hold;
}

}  // namespace lacuna
