#include "ops/operand.h"

#include "ops/quantize/affine.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/sign_mask.h"
#include "ops/row_blocks.h"

#include <utility>

namespace lacuna {
namespace {

/// Quantizes elements [begin, end) of a tensor, which are in `values`, again as `form.coarser` says, and decodes them
/// into their place. Groups do not cross samples: whole samples go together, the parts of samples at both ends each on
/// their own.
void quantize_again(const QuantizedForm& form, std::int64_t begin, std::int64_t end, const Tensor& values) {
  if (begin == end) return;
  const Shape& shape = form.values.shape;
  const std::int64_t sample = shape.count() / shape.front(), width = shape.back(),
                     first = std::min(end, (begin + sample - 1) / sample * sample),
                     last = std::max(first, end / sample * sample);
  const Tensor elements = values.reshape({values.count(), 1});
  const auto quantize = [&](std::int64_t from, std::int64_t to, std::int64_t samples) {
    if (from == to) return;
    const bool has_rows = (to - from) % (samples * width) == 0;
    const Tensor own = elements.leading(from - begin, to - begin);
    const quant::QuantizedTensor again =
        quant::quantize(has_rows ? own.reshape({samples, (to - from) / (samples * width), width}) : own, *form.coarser,
                        form.values.key + 1 + static_cast<std::uint64_t>(from));
    quant::dequantize(again, 0, to - from, own);
  };
  quantize(begin, first, 1);
  quantize(first, last, (last - first) / sample);
  quantize(last, end, 1);
}

void decode(const QuantizedForm& form, std::int64_t begin, std::int64_t end, const Tensor& out) {
  if (form.signs.defined() && !form.coarser)
    return quant::dequantize_rectified(form.values, form.signs, begin, end, out);
  quant::dequantize(form.values, begin, end, out);
  if (form.coarser) quantize_again(form, begin, end, out);
  if (form.signs.defined()) quant::rectify(out, form.signs, begin, out);
}

/// Decodes elements [begin, end) of a form that has one value per element of `operand`.
void decode_elements(const Operand& operand, std::int64_t begin, std::int64_t end, const Tensor& out) {
  if (const auto* const quantized = operand.as<QuantizedForm>()) return decode(*quantized, begin, end, out);
  const auto* const slopes = operand.as<SlopeForm>();
  expect(slopes != nullptr, "values of {} in {} are read, but {}", operand.op().text(), operand.path().text(),
         operand.defined() ? "only their signs were kept" : "they were not kept");
  quant::dequantize_slopes(slopes->bytes, *slopes->levels, begin, end, out);
}

/// Rows of a tensor that is not kept to read at a time: they stay in cache.
std::int64_t cached_rows(const Shape& shape, DType dtype, Device device) {
  if (shape.count() == 0) return std::max<std::int64_t>(shape.rows(), 1);
  return std::clamp<std::int64_t>(decoded_at_once(device) / (shape.back() * size_of(dtype)), 1, shape.rows());
}

}  // namespace

Operand::Operand(Tensor kept) : shape_(kept.shape()), dtype_(kept.dtype()), device_(kept.device()) {
  form_ = KeptForm{std::move(kept)};
}

Operand::Operand(Form form, const Shape& shape, DType dtype, Device device, Label op, Label path)
    : form_(std::move(form)), shape_(shape), dtype_(dtype), device_(device), op_(op), path_(path) {}

Tensor Operand::whole() const {
  if (const auto* const kept = as<KeptForm>()) return kept->values;
  const AllocationScope scope({Purpose::transient, op_, path_});
  const auto* const again = as<RematerializedForm>();
  if (again == nullptr) {
    Tensor values = Tensor::empty(shape_, dtype_, device_);
    decode_elements(*this, 0, values.count(), values);
    return values;
  }
  const Tensor values = Tensor::empty(again->shape, dtype_, device_);
  if (values.count() > 0)
    rematerialize_rows(*again, 0, cached_rows(again->shape, dtype_, device_), values.row_range(0, values.rows()));
  return values.reshape(shape_);
}

Tensor Operand::rows(std::int64_t begin, std::int64_t end) const {
  if (const auto* const kept = as<KeptForm>()) return kept->values.row_range(begin, end);
  const std::int64_t width = shape_.back();
  const AllocationScope scope({Purpose::workspace, op_, path_});
  const auto* const again = as<RematerializedForm>();
  if (again == nullptr) {
    const Tensor values = Tensor::empty({end - begin, width}, dtype_, device_, Purpose::workspace);
    decode_elements(*this, begin * width, end * width, values);
    return values;
  }
  const std::int64_t own_width = again->shape.back();
  if (begin * width % own_width != 0 || end * width % own_width != 0) return whole().row_range(begin, end);
  const std::int64_t first = begin * width / own_width, last = end * width / own_width;
  const Tensor values = Tensor::empty({last - first, own_width}, dtype_, device_, Purpose::workspace);
  rematerialize_rows(*again, first, cached_rows(again->shape, dtype_, device_), values);
  return values.reshape({end - begin, width});
}

std::int64_t Operand::block_rows() const {
  if (as<KeptForm>() != nullptr) return std::max<std::int64_t>(shape_.rows(), 1);
  return cached_rows(shape_, dtype_, device_);
}

std::int64_t elements_of_code_group(const Operand& operand) {
  const auto* const form = operand.as<QuantizedForm>();
  if (form == nullptr || form->signs.defined() || form->coarser) return 0;
  const quant::QuantizedTensor& quantized = form->values;
  if (quant::affine_quantizer_of(quantized.config) == nullptr) return 0;
  const quant::Layout layout(quantized.shape, quantized.config, nullptr);
  if (layout.kind != quant::Grouping::Kind::consecutive || (layout.size % 8 != 0 && layout.size < layout.count))
    return 0;
  return (layout.size + 7) / 8 * 8;
}

}  // namespace lacuna
