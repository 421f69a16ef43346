#include "core/block.h"
#include "core/coded/codec_cuda.h"
#include "core/math.h"

#include <cmath>
#include <cstring>

namespace lacuna::cuda {
namespace {

/// A thread decodes eight elements of a row.
template <class T>
struct Decode {
  static constexpr int threads = 256, at_once = 8;
  struct Shared {
    float values[16];
  };
  CodedMatrix matrix;
  DecodedRows what;

  template <class Part>
  LACUNA_DEVICE Part at(std::int64_t place, std::int64_t index) const {
    Part part;
    std::memcpy(&part, matrix.bytes + place + index * static_cast<std::int64_t>(sizeof(Part)), sizeof(Part));
    return part;
  }
  LACUNA_DEVICE float scale(std::int64_t block) const {
    const WeightLayout& layout = matrix.layout;
    if (matrix.format.nested_block == 0) return at<float>(layout.scales, block);
    const float of_scales = at<float>(layout.nested_scales, block / matrix.format.nested_block);
    const std::uint8_t code = matrix.bytes[layout.scales + block];
    return math::rounded_product(matrix.nested_map[code], of_scales) + at<float>(layout.offset, 0);
  }
  LACUNA_DEVICE float value(const Block<Decode>& block, std::int64_t element, float scale) const {
    if (matrix.format.code == WeightCode::bf16) return static_cast<float>(at<bf16>(0, element));
    float decoded;
    if (matrix.format.in_4_bits()) {
      const std::uint8_t byte = matrix.bytes[element / 2];
      decoded = math::rounded_product(block.shared().values[element % 2 == 0 ? byte >> 4 : byte & 15], scale);
    } else {
      const auto code = static_cast<float>(at<std::int8_t>(0, element));
      decoded = math::rounded_product(math::rounded_product(code, scale), 1.0F / 127.0F);
    }
    if (matrix.format.rounding == DType::bf16) return static_cast<float>(bf16(decoded));
    if (matrix.format.rounding == DType::f16) return static_cast<float>(f16(decoded));
    return decoded;
  }

  LACUNA_DEVICE void operator()(const Block<Decode>& block) const {
    if (block.thread() < 16)
      block.shared().values[block.thread()] = matrix.values[static_cast<std::size_t>(block.thread())];
    block.sync();
    const std::int64_t chunks = (what.columns + at_once - 1) / at_once, row = block.global_thread() / chunks,
                       column = block.global_thread() % chunks * at_once;
    if (row >= what.rows) return;
    const std::int64_t id = what.ids == nullptr ? what.first_row + row : what.ids[row];
    const bool inside = 0 <= id && id < matrix.rows;
    T* const to = static_cast<T*>(what.to) + row * what.columns;
    const std::int64_t first = id * matrix.width + what.first_column + column;
    std::int64_t scaled = -1;  // the block that `own` belongs to
    float own = 0;
    for (std::int64_t i = 0; i < at_once && column + i < what.columns; ++i) {
      if (inside && matrix.format.block != 0 && (first + i) / matrix.format.block != scaled) {
        scaled = (first + i) / matrix.format.block;
        own = scale(scaled);
      }
      to[column + i] = static_cast<T>(inside ? value(block, first + i, own) : NAN);
    }
  }
};

}  // namespace

void decode(Stream stream, DType type, const CodedMatrix& matrix, const DecodedRows& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.rows * divide_up(what.columns, Decode<T>::at_once), Decode<T>::threads),
        Decode<T>{.matrix = matrix, .what = what});
  });
}

}  // namespace lacuna::cuda
