#include "ops/quantize/affine.h"

#include "core/parallel.h"
#include "ops/quantize/affine_encoding.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/coded_means.h"
#include "ops/quantize/hadamard_codes.h"
#include "ops/quantize/layout.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace lacuna::quant {
namespace {

void expect_valid(const QuantConfig& coding) {
  expect(coding.bits >= 1 && coding.bits <= 8, "codes of {} bits were asked for; 1 to 8 are possible", coding.bits);
  expect(coding.grouping.size >= 1, "a group has one element or more, not {}", coding.grouping.size);
  expect(coding.grouping.extents >= 1, "a row is one extent or more, not {}", coding.grouping.extents);
  if (coding.rounding != Rounding::hadamard) return;
  expect(coding.bits <= max_hadamard_bits && coding.grouping.kind == Grouping::Kind::run &&
             coding.grouping.size <= max_hadamard_group,
         "rotated codes of {} bits in {} of {} were asked for; 1 to {} bits are possible, in runs of up to {}",
         coding.bits, coding.grouping.kind == Grouping::Kind::run ? "runs" : "columns", coding.grouping.size,
         max_hadamard_bits, max_hadamard_group);
}

/// Rotated codes. The means are found, coded behind where the codes of x will be, and taken off as they will be
/// decoded.
void encode_with_means(const Tensor& x, const QuantizedTensor& codes) {
  const QuantizedTensor coded = codes_of_means(codes);
  const AllocationScope scope({Purpose::workspace, {}, {}});
  const Tensor means = Tensor::empty(coded.shape, DType::f32, x.device(), Purpose::workspace);
  if (means.count() > 0) {
    launch(x.device(), [&] { find_means(x, means); });
    encode_affine(means, coded, nullptr);
    decode(coded, 0, means.count(), means);
  }
  launch(x.device(), [&] { encode_hadamard(x, codes, numbers_of(means)); });
}

QuantizedTensor encode_with(const Tensor& x, const QuantConfig& coding, std::uint64_t key, const KnownRanges* known) {
  expect_valid(coding);
  expect(is_floating(x.dtype()), "a tensor of {} was given to the codec; it codes floating types", name_of(x.dtype()));
  QuantizedTensor codes{
      coding, x.shape(), x.dtype(),
      Tensor::empty({coded_bytes(x.shape(), coding)}, DType::u8, x.device(), AllocationScope::current().purpose), key};
  if (x.count() == 0) return codes;
  if (coding.rounding == Rounding::hadamard)
    encode_with_means(x, codes);
  else
    encode_affine(x, codes, known);
  return codes;
}

}  // namespace

std::int64_t group_count(const Shape& shape, const Grouping& grouping) {
  const std::int64_t count = shape.count();
  const std::int64_t grouped =
      grouping.kind == Grouping::Kind::run || count == 0 ? count : row_elements(shape, grouping);
  return (grouped + grouping.size - 1) / grouping.size;
}

std::int64_t coded_bytes(const Shape& shape, const QuantConfig& coding) {
  return code_bytes(shape.count(), coding.bits) + range_bytes(shape, coding);
}

std::int64_t code_bytes(std::int64_t elements, int bits) { return packed_row_bytes(elements, bits); }

std::int64_t range_bytes(const Shape& shape, const QuantConfig& coding) {
  const Shape means = means_shape(shape, coding);
  return stored_bytes * group_count(shape, coding.grouping) +
         (means.count() == 0 ? 0 : coded_bytes(means, least_error(8, {})));
}

// With more, the extremes of a normal distribution cost no more than what lies beyond the last step.
bool uses_hadamard(int bits) { return bits <= max_hadamard_bits; }

double relative_error(int bits) {
  const double levels = static_cast<double>((1 << bits) - 1);
  return uses_hadamard(bits) ? hadamard_error(bits) : 2.72 / (levels * levels);
}

QuantConfig least_error(int bits, const Grouping& grouping) {
  const bool turned = uses_hadamard(bits) && grouping.kind == Grouping::Kind::run;
  return {.bits = bits, .grouping = grouping, .rounding = turned ? Rounding::hadamard : Rounding::dithered};
}

QuantizedTensor encode(const Tensor& x, const QuantConfig& coding, std::uint64_t key) {
  return encode_with(x, coding, key, nullptr);
}

QuantizedTensor encode(const Tensor& x, const QuantConfig& coding, std::uint64_t key, std::span<const Range> ranges,
                       std::span<Range> seen) {
  expect_valid(coding);
  expect(coding.rounding != Rounding::hadamard, "rotated codes have no ranges; {} were given", ranges.size());
  const auto groups = static_cast<std::size_t>(group_count(x.shape(), coding.grouping));
  expect(ranges.size() == groups, "{} ranges were given for the {} groups of {}", ranges.size(), groups, x.shape());
  expect(seen.empty() || seen.size() == groups, "room for {} ranges was given for the {} groups of {}", seen.size(),
         groups, x.shape());
  for (const Range& range : ranges)
    expect(std::isfinite(range.min) && std::isfinite(range.max) && range.min <= range.max,
           "the codec was given the range [{}, {}]; it takes finite ones, the least value first", range.min, range.max);
  const KnownRanges known{ranges, seen};
  return encode_with(x, coding, key, &known);
}

}  // namespace lacuna::quant
