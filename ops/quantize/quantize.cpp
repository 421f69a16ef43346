#include "ops/quantize/quantize.h"

#include "ops/quantize/layout.h"
#include "ops/quantize/quantize_kernels.h"

#include <array>
#include <cmath>
#include <string>

namespace lacuna::quant {
namespace {

void check(const QuantConfig& config) {
  expect(config.bits >= 1 && config.bits <= 8, "quantize: expected 1 to 8 bits, got {}", config.bits);
  expect(config.grouping.size >= 1, "quantize: expected groups of one element or more, got {}", config.grouping.size);
  expect(config.grouping.row_axes >= 1, "quantize: expected rows of one axis or more, got {}",
         config.grouping.row_axes);
  expect(quantizer_of(config).takes(config), "quantize: {} does not take {} bits in groups of {} {}", config.quantizer,
         config.bits, config.grouping.size,
         config.grouping.kind == Grouping::Kind::consecutive ? "consecutive elements" : "columns");
}

QuantizedTensor quantize_with(const Tensor& x, const QuantConfig& config, std::uint64_t key, const KnownRanges* known,
                              Tensor drawn = {}) {
  check(config);
  expect(is_floating(x.dtype()), "quantize: expected a floating type, got {}", name_of(x.dtype()));
  QuantizedTensor quantized{
      config,
      x.shape(),
      x.dtype(),
      Tensor::empty({quantized_bytes(x.shape(), config)}, DType::u8, x.device(), AllocationScope::current().purpose),
      key,
      std::move(drawn)};
  if (x.count() > 0) quantizer_of(config).encode(x, quantized, known);
  return quantized;
}

/// The names of the quantizers with the smallest error, among those of which `f` holds, by kind of groups and bits.
class LeastError {
 public:
  template <class F>
  explicit LeastError(const F& f) {
    for (const std::string& name : quantizers().names())
      for (const Grouping::Kind kind : {Grouping::Kind::consecutive, Grouping::Kind::columns})
        for (int bits = 1; bits <= 8; ++bits) {
          const QuantConfig config{.bits = bits, .grouping = {.kind = kind}, .quantizer = name};
          const Quantizer& quantizer = quantizer_of(config);
          std::string& least = names_.at(index(bits, kind));
          if (f(quantizer) && quantizer.takes(config) &&
              (least.empty() || quantizer.relative_error(bits) < quantizers().get(least)->relative_error(bits)))
            least = name;
        }
  }
  /// With bits and groups.
  QuantConfig config(int bits, const Grouping& grouping) const {
    expect(bits >= 1 && bits <= 8, "quantize: expected 1 to 8 bits, got {}", bits);
    return {.bits = bits, .grouping = grouping, .quantizer = names_.at(index(bits, grouping.kind))};
  }

 private:
  static std::size_t index(int bits, Grouping::Kind kind) {
    return static_cast<std::size_t>(kind == Grouping::Kind::columns ? 9 + bits : bits);
  }
  std::array<std::string, 18> names_{};
};

}  // namespace

Registry<std::unique_ptr<const Quantizer>>& quantizers() {
  static Registry<std::unique_ptr<const Quantizer>> registry("quantizer");
  return registry;
}

const Quantizer& quantizer_of(const QuantConfig& config) { return *quantizers().get(config.quantizer); }

const Quantizer& min_error_quantizer(int bits, Grouping::Kind kind) {
  return quantizer_of(min_error_config(bits, {.kind = kind}));
}

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
  return group_params_bytes * group_count(shape, config.grouping) + quantizer_of(config).more_bytes(shape);
}

double relative_error(int bits) { return min_error_quantizer(bits).relative_error(bits); }

QuantConfig min_error_config(int bits, const Grouping& grouping) {
  static const LeastError unbiased([](const Quantizer& quantizer) { return quantizer.is_unbiased(); });
  return unbiased.config(bits, grouping);
}

QuantConfig drawless_config(int bits, const Grouping& grouping) {
  static const LeastError drawless([](const Quantizer& quantizer) { return !quantizer.draws(); });
  return drawless.config(bits, grouping);
}

QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key) {
  return quantize_with(x, config, key, nullptr);
}

QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, const RandomStream& stream, std::uint64_t number) {
  if (!quantizer_of(config).draws()) return quantize(x, config, 0);
  expect(quantizer_of(config).draws_in_kernels(), "quantizer {} draws on the host: its step cannot be captured",
         config.quantizer);
  Tensor drawn = Tensor::empty({}, DType::i64, x.device(), AllocationScope::current().purpose);
  draw_key(x.device(), stream, number, drawn);
  return quantize_with(x, config, 0, nullptr, std::move(drawn));
}

QuantizedTensor quantize(const Tensor& x, const QuantConfig& config, std::uint64_t key, std::span<const Range> ranges,
                         std::span<Range> seen) {
  check(config);
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
  if (begin < end) quantizer_of(quantized.config).decode(quantized, begin, end, out);
}

BlockDequantizer block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements, std::int64_t slots) {
  return quantizer_of(quantized.config).block_dequantizer(quantized, max_elements, slots);
}

}  // namespace lacuna::quant
