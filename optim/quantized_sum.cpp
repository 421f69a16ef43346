#include "optim/quantized_sum.h"

#include "core/error.h"
#include "core/kernel_scope.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lacuna {
namespace {

constexpr std::int64_t group = 256;  // elements
/// One array has the same codes on every rank, and in every step.
quant::QuantConfig config() { return quant::drawless_config(8, {.size = group}); }
/// Elements that are quantized at once: so few that the quantizer leaves the other threads alone.
constexpr std::int64_t tile = 32 * group;

std::int64_t quantized_size(std::int64_t count) { return quant::quantized_bytes({count}, config()); }

/// Elements of each rank's slice of `used` elements, in whole groups.
std::int64_t slice_of(std::int64_t used, int ranks) {
  const std::int64_t groups = (used + group - 1) / group;
  return (groups + ranks - 1) / ranks * group;
}

/// Calls f(begin, end of the elements, begin of their bytes).
template <class F>
void for_tiles(std::int64_t count, const F& f) {
  for (std::int64_t begin = 0, byte = 0; begin < count; begin += tile) {
    const std::int64_t end = std::min(begin + tile, count);
    f(begin, end, byte);
    byte += quantized_size(end - begin);
  }
}

}  // namespace

QuantizedSum::QuantizedSum(Communicator& ranks, std::int64_t count) : ranks_(ranks) {
  const AllocationScope scope({Purpose::workspace, Label("sum over ranks"), {}});
  const std::int64_t slice = slice_of(count, ranks.size());
  const auto of = [](std::int64_t size, DType dtype) {
    return Tensor::zeros({size}, dtype, Device::cpu, Purpose::workspace);
  };
  values_ = of(ranks.size() * slice, DType::f32);
  lost_ = of(ranks.size() * slice, DType::f32);
  send_ = of(ranks.size() * quantized_size(slice), DType::u8);
  receive_ = of(ranks.size() * quantized_size(slice), DType::u8);
  row_ = of(slice, DType::f32);
}

std::int64_t QuantizedSum::bytes_sent(std::int64_t elements) { return quantized_size(elements); }

void QuantizedSum::quantize(const Tensor& values, std::byte* to) const {
  const AllocationScope scope({Purpose::workspace, Label("sum over ranks"), {}});
  for_tiles(values.count(), [&](std::int64_t begin, std::int64_t end, std::int64_t byte) {
    const quant::QuantizedTensor quantized = quant::quantize(values.leading(begin, end), config(), 0);
    std::memcpy(to + byte, quantized.bytes.raw(), static_cast<std::size_t>(quantized.bytes.bytes()));
  });
}

void QuantizedSum::dequantize(const Tensor& bytes, const Tensor& values) const {
  for_tiles(values.count(), [&](std::int64_t begin, std::int64_t end, std::int64_t byte) {
    const std::int64_t count = end - begin;
    quant::dequantize(
        {.config = config(), .shape = {count}, .bytes = bytes.leading(byte, byte + quantized_size(count))}, 0, count,
        values.leading(begin, end));
  });
}

void QuantizedSum::run(std::int64_t used) const {
  const KernelScope kernel;
  const std::int64_t ranks = ranks_.size(), slice = slice_of(used, ranks_.size()), bytes = quantized_size(slice);
  expect(ranks * slice <= count(), "{} numbers do not fit into an array of {}", used, count());
  if (used == 0) return;
  std::fill(values() + used, values() + ranks * slice, 0.0F);
  const auto values_of = [&](std::int64_t rank) { return values_.leading(rank * slice, (rank + 1) * slice); };
  const auto lost_of = [&](std::int64_t rank) { return lost_.leading(rank * slice, (rank + 1) * slice); };
  const auto bytes_of = [&](const Tensor& buffer, std::int64_t rank) {
    return buffer.leading(rank * bytes, (rank + 1) * bytes);
  };
  // lost = values − what arrives. One that is not finite is not fed back.
  const auto note_lost = [&](const Tensor& wanted, const Tensor& arrived, const Tensor& lost) {
    const float *const w = wanted.data<const float>(), *const a = arrived.data<const float>();
    float* const l = lost.data<float>();
    for (std::int64_t i = 0; i < slice; ++i) l[i] = std::isfinite(w[i] - a[i]) ? w[i] - a[i] : 0;
  };
  const auto to_bytes = [](const Tensor& buffer, std::int64_t size) {
    return std::span<std::byte>(buffer.raw(), static_cast<std::size_t>(size));
  };
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (rank == ranks_.rank()) continue;  // its own part does not travel
    quantize(values_of(rank), bytes_of(send_, rank).raw());
    dequantize(bytes_of(send_, rank), row_.leading(0, slice));
    note_lost(values_of(rank), row_, lost_of(rank));
  }
  ranks_.all_to_all(to_bytes(send_, ranks * bytes), to_bytes(receive_, ranks * bytes));
  const Tensor sum = lost_of(ranks_.rank());  // until its own loss is known
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const bool own = rank == ranks_.rank();
    if (!own) dequantize(bytes_of(receive_, rank), row_.leading(0, slice));
    const float* const from = (own ? values_of(rank) : row_).data<const float>();
    float* const to = sum.data<float>();
    for (std::int64_t i = 0; i < slice; ++i) to[i] = rank == 0 ? from[i] : to[i] + from[i];
  }
  const Tensor quantized = bytes_of(send_, 0);
  quantize(sum, quantized.raw());
  ranks_.all_gather(to_bytes(quantized, bytes), to_bytes(receive_, ranks * bytes));
  for (std::int64_t rank = 0; rank < ranks; ++rank) dequantize(bytes_of(receive_, rank), values_of(rank));
  note_lost(sum, values_of(ranks_.rank()), sum);
}

}  // namespace lacuna
