#include "ops/cuda/operand.h"

#include "ops/quantize/affine.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/mixed_key.h"

namespace lacuna::cuda {

std::optional<SavedValues> saved_codes(const Operand& operand) {
  const auto* const form = operand.as<QuantizedForm>();
  if (form == nullptr || form->signs.defined() || form->coarser) return std::nullopt;
  const quant::QuantizedTensor& quantized = form->values;
  const quant::AffineQuantizer* const affine = quant::affine_quantizer_of(quantized.config);
  if (affine == nullptr) return std::nullopt;
  const quant::Layout layout(quantized.shape, quantized.config, quantized.bytes.raw());
  if (layout.kind != quant::Grouping::Kind::consecutive || (layout.size % 8 != 0 && layout.size < layout.count))
    return std::nullopt;
  return SavedValues{.codes = layout.codes,
                     .params = layout.params,
                     .group = (layout.size + 7) / 8 * 8,
                     .key = quant::mixed_key_of(quantized),
                     .bits = layout.bits,
                     .dithered = affine->rounding() == quant::Rounding::dithered};
}

}  // namespace lacuna::cuda
