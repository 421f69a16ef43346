#include "ops/cuda/operand.h"

#include "ops/quantize/affine.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/mixed_key.h"

namespace lacuna::cuda {

std::optional<SavedValues> saved_codes(const Operand& operand) {
  const std::int64_t group = elements_of_code_group(operand);
  if (group == 0) return std::nullopt;
  const quant::QuantizedTensor& quantized = operand.as<QuantizedForm>()->values;
  const quant::Layout layout(quantized.shape, quantized.config, quantized.bytes.raw());
  return SavedValues{.codes = layout.codes,
                     .params = layout.params,
                     .group = group,
                     .key = quant::mixed_key_of(quantized),
                     .bits = layout.bits,
                     .dithered = quant::rounding_of(quantized.config) == quant::Rounding::dithered};
}

CodedRange coded_range(const Operand& codes, std::int64_t begin, const Tensor& like) {
  const std::optional<SavedValues> values = saved_codes(codes);
  const std::int64_t total = codes.shape().count(), count = like.count();
  expect(values.has_value() && begin % 8 == 0 && count % 8 == 0 && begin + count <= total,
         "{} in {}: expected codes of {} elements from {} on, got an operand of {}", codes.op().text(),
         codes.path().text(), count, begin, codes.shape());
  return {*values, total, begin, count};
}

}  // namespace lacuna::cuda
