#include "core/coded/codec.h"

#include "core/coded/maps.h"
#include "core/tensor.h"

#include <algorithm>

namespace lacuna {
namespace {

void expect_coded(const Tensor& tensor) {
  expect(tensor.dtype() == DType::coded, "expected a weight in few bits, got a tensor of {}", name_of(tensor.dtype()));
}

}  // namespace

void decode(const Tensor& coded, const CodedPart& part, const Tensor& out) {
  expect_coded(coded);
  const std::int64_t width = coded.shape().rank() == 0 ? 1 : coded.shape().back();
  expect(0 <= part.first_row && 0 <= part.first_column && part.first_column + part.columns <= width &&
             (part.first_row + part.rows) * width <= coded.count() && out.count() == part.rows * part.columns,
         "decoding rows {} to {} and columns {} to {} of a weight {} into {}", part.first_row,
         part.first_row + part.rows, part.first_column, part.first_column + part.columns, coded.shape(), out.shape());
  if (out.count() > 0) decode_kernel(out.device(), coded, part, out);
}

void decode(const Tensor& coded, const Tensor& out) {
  const std::int64_t width = coded.shape().rank() == 0 ? 1 : coded.shape().back();
  if (coded.count() > 0) decode(coded, {.rows = coded.count() / width, .columns = width}, out);
}

void decode_rows(const Tensor& coded, const Tensor& ids, const Tensor& out) {
  expect_coded(coded);
  expect(out.count() == ids.count() * coded.shape().back(), "decoding {} rows of a weight {} into {}", ids.count(),
         coded.shape(), out.shape());
  if (out.count() > 0) decode_rows_kernel(out.device(), coded, ids, out);
}

bool can_join(const WeightFormat& format, std::span<const std::int64_t> counts) {
  const std::int64_t unit = std::max<std::int64_t>(format.block, 1);
  if (format.in_4_bits() && unit % 2 != 0) return false;
  return std::ranges::all_of(counts, [&](std::int64_t count) { return count % unit == 0; });
}

void encode(const Tensor& values, const Tensor& coded) {
  expect_coded(coded);
  expect(values.count() == coded.count(), "cannot encode {} as {}", values.shape(), coded.shape());
  expect(coded.format().code != WeightCode::fp4, "weights in fp4 are read from files; encoding writes nf4 or int4");
  encode_kernel(coded.device(), values, coded);
}

}  // namespace lacuna
