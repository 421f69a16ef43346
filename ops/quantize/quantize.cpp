#include "ops/quantize/quantize.h"

#include "ops/quantize/affine_dequantize.h"
#include "ops/quantize/affine_quantize.h"
#include "ops/quantize/hadamard_quantize.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/quantize_kernels.h"

#include <cmath>

namespace lacuna::quant {
namespace {

void check(const QuantConfig& config) {
  expect(config.bits >= 1 && config.bits <= 8, "quantize: expected 1 to 8 bits, got {}", config.bits);
  expect(config.grouping.size >= 1, "quantize: expected groups of one element or more, got {}", config.grouping.size);
  expect(config.grouping.row_axes >= 1, "quantize: expected rows of one axis or more, got {}",
         config.grouping.row_axes);
  if (config.rounding != Rounding::hadamard) return;
  const bool consecutive = config.grouping.kind == Grouping::Kind::consecutive;
  expect(config.bits <= max_hadamard_bits && consecutive && config.grouping.size <= max_hadamard_group,
         "quantize: a Hadamard transform goes with 1 to {} bits and groups of up to {} consecutive elements, got {} "
         "bits and groups of {} {}",
         max_hadamard_bits, max_hadamard_group, config.bits, config.grouping.size,
         consecutive ? "consecutive elements" : "columns");
}

QuantizedTensor quantize_with(const Tensor& x, const QuantConfig& config, std::uint64_t key, const KnownRanges* known) {
  check(config);
  expect(is_floating(x.dtype()), "quantize: expected a floating type, got {}", name_of(x.dtype()));
  QuantizedTensor quantized{
      config, x.shape(), x.dtype(),
      Tensor::empty({quantized_bytes(x.shape(), config)}, DType::u8, x.device(), AllocationScope::current().purpose),
      key};
  if (x.count() > 0) quantize_values(x.device(), x, quantized, known);
  return quantized;
}

const RegisterKernel cpu_quantize{quantize_values,
                                  {DeviceKind::cpu, DeviceKind::meta},
                                  [](const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) {
                                    if (quantized.config.rounding == Rounding::hadamard)
                                      quantize_hadamard(x, quantized);
                                    else
                                      quantize_affine(x, quantized, known);
                                  }};
const RegisterKernel cpu_dequantize{
    dequantize_values,
    {DeviceKind::cpu, DeviceKind::meta},
    [](const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out) {
      if (quantized.config.rounding == Rounding::hadamard)
        dequantize_hadamard(quantized, begin, end, out);
      else
        dequantize_affine(quantized, begin, end, out);
    }};

}  // namespace

std::int64_t group_count(const Shape& shape, const Grouping& grouping) {
  const std::int64_t count = shape.count();
  const std::int64_t grouped =
      grouping.kind == Grouping::Kind::consecutive || count == 0 ? count : row_elements(shape, grouping);
  return (grouped + grouping.size - 1) / grouping.size;
}

std::int64_t code_bytes(std::int64_t elements, int bits) { return packed_bytes(elements, bits); }

std::int64_t quantized_bytes(const Shape& shape, const QuantConfig& config) {
  return code_bytes(shape.count(), config.bits) + range_bytes(shape, config);
}

std::int64_t range_bytes(const Shape& shape, const QuantConfig& config) {
  const Shape means = means_shape(shape, config);
  return group_params_bytes * group_count(shape, config.grouping) +
         (means.count() == 0 ? 0 : quantized_bytes(means, min_error_config(8, {})));
}

// With more bits, the range of normal values costs no more than what lies beyond the last level.
bool uses_hadamard(int bits) { return bits <= max_hadamard_bits; }

double relative_error(int bits) {
  const double levels = static_cast<double>((1 << bits) - 1);
  return uses_hadamard(bits) ? hadamard_error(bits) : 2.72 / (levels * levels);
}

QuantConfig min_error_config(int bits, const Grouping& grouping) {
  const bool hadamard = uses_hadamard(bits) && grouping.kind == Grouping::Kind::consecutive;
  return {.bits = bits, .grouping = grouping, .rounding = hadamard ? Rounding::hadamard : Rounding::dithered};
}

QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key) {
  return quantize_with(x, config, key, nullptr);
}

QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key, std::span<const Range> ranges,
                         std::span<Range> seen) {
  check(config);
  expect(config.rounding != Rounding::hadamard, "quantize: Hadamard groups have no ranges, got {}", ranges.size());
  const auto groups = static_cast<std::size_t>(group_count(x.shape(), config.grouping));
  expect(ranges.size() == groups, "quantize: expected {} ranges for the groups of {}, got {}", groups, x.shape(),
         ranges.size());
  expect(seen.empty() || seen.size() == groups, "quantize: expected place for {} observed ranges, got {}", groups,
         seen.size());
  for (const Range& range : ranges)
    expect(std::isfinite(range.min) && std::isfinite(range.max) && range.min <= range.max,
           "quantize: expected finite ranges with min <= max, got [{}, {}]", range.min, range.max);
  const KnownRanges known{ranges, seen};
  return quantize_with(x, config, key, &known);
}

void dequantize(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out) {
  expect(0 <= begin && begin <= end && end <= quantized.shape.count(),
         "dequantize: expected a range of the elements of {}, got [{}, {})", quantized.shape, begin, end);
  expect(out.count() == end - begin, "dequantize: expected an output of {} elements, got {}", end - begin, out.shape());
  expect(out.dtype() == quantized.dtype, "dequantize: expected an output of {}, got {}", name_of(quantized.dtype),
         name_of(out.dtype()));
  if (begin < end) dequantize_values(out.device(), quantized, begin, end, out);
}

BlockDequantizer block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements, std::int64_t slots) {
  if (quantized.config.rounding == Rounding::hadamard)
    return hadamard_block_dequantizer(quantized, max_elements, slots);
  return affine_block_dequantizer(quantized);
}

}  // namespace lacuna::quant
