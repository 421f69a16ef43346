// Compiled without contraction to fused multiply-adds: decoded values equal bitsandbytes' to the bit.
#include "core/coded/codec.h"
#include "core/coded/maps.h"
#include "core/dtype.h"
#include "core/parallel.h"
#include "core/tensor.h"
#include "core/vector.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace lacuna {
namespace {

constexpr std::int64_t lanes = vector_bytes / 4;
typedef float Floats __attribute__((vector_size(vector_bytes)));
typedef std::int32_t Ints __attribute__((vector_size(vector_bytes)));

/// The parts of a coded tensor in memory.
struct Parts {
  explicit Parts(const Tensor& coded)
      : format(coded.format()), layout(layout_of(format, coded.count())), codes(coded.data<const std::byte>()) {}

  float scale(std::int64_t block) const {
    if (format.nested_block == 0) return at<float>(layout.scales, block);
    const float of_scales = at<float>(layout.nested_scales, block / format.nested_block);
    return nested_map()[at<std::uint8_t>(layout.scales, block)] * of_scales + at<float>(layout.offset, 0);
  }
  template <class T>
  T at(std::int64_t place, std::int64_t index) const {
    T value;
    std::memcpy(&value, codes + place + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  WeightFormat format;
  WeightLayout layout;
  const std::byte* codes;
};

/// Sixteen values by their codes, in as many vectors as they take.
struct Table {
  explicit Table(const std::array<float, 16>& values) { std::memcpy(parts, values.data(), sizeof parts); }
  Floats operator()(const Ints& codes) const {
#ifdef __clang__  // has no shuffle by a variable
    Floats values;
    for (int lane = 0; lane < lanes; ++lane) values[lane] = (*this)[static_cast<std::size_t>(codes[lane])];
    return values;
#else
    if constexpr (lanes == 16) return __builtin_shuffle(parts[0], codes);
    const Ints low = codes & 7;
    return codes > 7 ? __builtin_shuffle(parts[1], low) : __builtin_shuffle(parts[0], low);
#endif
  }
  float operator[](std::size_t code) const {
    float value;
    std::memcpy(&value, reinterpret_cast<const char*>(parts) + 4 * code, 4);
    return value;
  }
  Floats parts[16 / lanes];
};

/// Elements [first, first + count) of one block in 4 bits. The first element of a byte is in its high half.
void decode_in_4_bits(const std::byte* codes, std::int64_t first, std::int64_t count, float scale, const Table& table,
                      float* out) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(codes);
  std::int64_t i = 0;
  const auto one = [&](std::int64_t element) {
    const std::uint8_t byte = bytes[element / 2];
    return table[element % 2 == 0 ? byte >> 4 : byte & 15] * scale;
  };
  if (first % 2 != 0 && count > 0) out[i++] = one(first);
#ifndef __clang__
  if constexpr (lanes >= 8)
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      std::uint8_t some[lanes];
      std::memcpy(some, bytes + (first + i) / 2, sizeof some);
      Ints wide{};
      for (int lane = 0; lane < lanes; ++lane) wide[lane] = some[lane];
      const Floats high = table(wide >> 4) * scale, low = table(wide & 15) * scale;
      Ints lower{}, upper{};  // lanes of the interleaved halves
      for (int lane = 0; lane < lanes; ++lane) {
        lower[lane] = lane / 2 + (lane % 2 == 0 ? 0 : static_cast<int>(lanes));
        upper[lane] = lower[lane] + static_cast<int>(lanes / 2);
      }
      const Floats a = __builtin_shuffle(high, low, lower), b = __builtin_shuffle(high, low, upper);
      std::memcpy(out + i, &a, sizeof a);
      std::memcpy(out + i + lanes, &b, sizeof b);
    }
#endif
  for (; i < count; ++i) out[i] = one(first + i);
}

void decode_in_8_bits(const std::byte* codes, std::int64_t first, std::int64_t count, float scale, float* out) {
  const auto* const code = reinterpret_cast<const std::int8_t*>(codes) + first;
  constexpr float part = 1.0F / 127.0F;
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(code[i]) * scale * part;
}

void decode_bf16(const std::byte* codes, std::int64_t first, std::int64_t count, float* out) {
  const auto* const from = reinterpret_cast<const bf16*>(codes) + first;
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i]);
}

template <class Rounded>
void round_to(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(Rounded(values[i]));
}

/// Elements [first, first + count), which may span blocks.
void decode_run(const Parts& parts, const Table& table, std::int64_t first, std::int64_t count, float* out) {
  const WeightFormat& format = parts.format;
  if (format.block == 0) return decode_bf16(parts.codes, first, count, out);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t begin = first + done, block = begin / format.block,
                       length = std::min(count - done, (block + 1) * format.block - begin);
    const float scale = parts.scale(block);
    if (format.in_4_bits())
      decode_in_4_bits(parts.codes, begin, length, scale, table, out + done);
    else
      decode_in_8_bits(parts.codes, begin, length, scale, out + done);
    done += length;
  }
  if (format.rounding == DType::bf16) round_to<bf16>(out, count);
  if (format.rounding == DType::f16) round_to<f16>(out, count);
}

/// The same into any type: through a buffer on the stack.
template <class T>
void decode_run_as(const Parts& parts, const Table& table, std::int64_t first, std::int64_t count, T* out) {
  if constexpr (std::is_same_v<T, float>) return decode_run(parts, table, first, count, out);
  constexpr std::int64_t at_once = 1024;
  float values[at_once];
  for (std::int64_t done = 0; done < count; done += at_once) {
    const std::int64_t some = std::min(at_once, count - done);
    decode_run(parts, table, first + done, some, values);
    for (std::int64_t i = 0; i < some; ++i) out[done + i] = static_cast<T>(values[i]);
  }
}

constexpr std::int64_t serial_below = 16384;  // elements

void decode_part(const Tensor& coded, const CodedPart& part, const Tensor& out) {
  const Parts parts(coded);
  const Table table(values_of(parts.format.code));
  const std::int64_t width = coded.shape().rank() == 0 ? 1 : coded.shape().back();
  with_float_type(out.dtype(), [&]<class T>(Type<T>) {
    T* const to = out.data<T>();  // [rows, columns]
    if (part.columns == width) {
      const std::int64_t first = part.first_row * width;
      parallel_for(
          part.rows * width, serial_below,
          [&](std::int64_t begin, std::int64_t end) {
            decode_run_as(parts, table, first + begin, end - begin, to + begin);
          },
          64);
      return;
    }
    parallel_for(part.rows, serial_below / part.columns + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        decode_run_as(parts, table, (part.first_row + row) * width + part.first_column, part.columns,
                      to + row * part.columns);
    });
  });
}

void decode_listed_rows(const Tensor& coded, const Tensor& ids, const Tensor& out) {
  const Parts parts(coded);
  const Table table(values_of(parts.format.code));
  const std::int64_t width = coded.shape().back(), count = coded.count() / width;
  const auto* const id = ids.data<const std::int64_t>();  // [n]
  for (std::int64_t i = 0; i < ids.count(); ++i)
    if (id[i] < 0 || id[i] >= count)
      reject("embedding: element {} of the ids is {}, and the table has the rows 0 to {}", i, id[i], count - 1);
  with_float_type(out.dtype(), [&]<class T>(Type<T>) {
    T* const to = out.data<T>();  // [n, width]
    parallel_for(ids.count(), serial_below / width + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) decode_run_as(parts, table, id[i] * width, width, to + i * width);
    });
  });
}

/// Places between neighbouring values, at which the nearest one changes.
template <std::size_t n>
std::array<float, n - 1> middles(const std::array<float, n>& ascending) {
  std::array<float, n - 1> all;
  for (std::size_t i = 0; i + 1 < n; ++i)
    all[i] = static_cast<float>((static_cast<double>(ascending[i]) + static_cast<double>(ascending[i + 1])) / 2);
  return all;
}

/// Codes of one block in 4 bits, and its scale.
float encode_in_4_bits(const float* values, std::int64_t count, const std::array<float, 15>& between, int last,
                       std::uint8_t* codes) {
  float scale = 0;
  for (std::int64_t i = 0; i < count; ++i) scale = std::max(scale, std::abs(values[i]));
  const float inverse = scale == 0 ? 0 : 1 / scale;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = scale == 0 ? 0 : values[i] * inverse;
    int code = 0;
    for (int t = 0; t < last; ++t) code += value > between[static_cast<std::size_t>(t)] ? 1 : 0;
    codes[i] = static_cast<std::uint8_t>(code);
  }
  return scale;
}

float encode_in_8_bits(const float* values, std::int64_t count, std::int8_t* codes) {
  float scale = 1e-30F;  // bitsandbytes' for a row of zeros
  for (std::int64_t i = 0; i < count; ++i) scale = std::max(scale, std::abs(values[i]));
  // By division: the product with a rounded 127 / scale misses ties, which bf16 weights have.
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<std::int8_t>(std::nearbyint(values[i] / scale * 127.0F));
  return scale;
}

/// Writes the scales of blocks, or their codes, the scales of these and the offset.
void write_scales(const std::vector<float>& scales, const WeightFormat& format, const WeightLayout& layout,
                  std::byte* to) {
  if (format.nested_block == 0) {
    std::memcpy(to + layout.scales, scales.data(), scales.size() * sizeof(float));
    return;
  }
  static const std::array<float, 255> between = middles(nested_map());
  double sum = 0;
  for (const float scale : scales) sum += static_cast<double>(scale);
  const auto offset = static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(scales.size(), 1)));
  std::memcpy(to + layout.offset, &offset, sizeof offset);
  for (std::int64_t block = 0; block < layout.nested_blocks; ++block) {
    const std::int64_t begin = block * format.nested_block, end = std::min(layout.blocks, begin + format.nested_block);
    float largest = 0;
    for (std::int64_t i = begin; i < end; ++i)
      largest = std::max(largest, std::abs(scales[static_cast<std::size_t>(i)] - offset));
    const float inverse = largest == 0 ? 0 : 1 / largest;
    for (std::int64_t i = begin; i < end; ++i) {
      const float value = (scales[static_cast<std::size_t>(i)] - offset) * inverse;
      to[layout.scales + i] = static_cast<std::byte>(std::ranges::lower_bound(between, value) - between.begin());
    }
    std::memcpy(to + layout.nested_scales + block * 4, &largest, sizeof largest);
  }
}

/// Values [first, first + count) as f32: themselves, or converted into `buffer`.
const float* as_floats(const Tensor& values, std::int64_t first, std::int64_t count, std::vector<float>& buffer) {
  if (values.dtype() == DType::f32) return values.data<const float>() + first;
  buffer.resize(static_cast<std::size_t>(count));
  with_type(values.dtype(), [&]<class T>(Type<T>) {
    const T* const from = values.data<const T>() + first;
    for (std::int64_t i = 0; i < count; ++i)
      buffer[static_cast<std::size_t>(i)] = static_cast<float>(to_compute(from[i]));
  });
  return buffer.data();
}

void encode_on_cpu(const Tensor& values, const Tensor& coded) {
  const WeightFormat format = coded.format();
  const std::int64_t count = coded.count();
  const WeightLayout layout = layout_of(format, count);
  std::byte* const to = coded.raw();
  if (format.block == 0) {
    auto* const out = reinterpret_cast<bf16*>(to);  // [count]
    parallel_for(count, serial_below, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> buffer;
      const float* const from = as_floats(values, begin, end - begin, buffer);
      for (std::int64_t i = begin; i < end; ++i) out[i] = bf16(from[i - begin]);
    });
    return;
  }
  std::vector<float> scales(static_cast<std::size_t>(layout.blocks));
  const bool by_nf4 = format.code == WeightCode::nf4;
  const std::array<float, 15> between = format.in_4_bits() ? middles(values_of(format.code)) : std::array<float, 15>{};
  // Pairs of blocks, so that no two threads share a byte.
  parallel_for(
      layout.blocks, serial_below / format.block + 1,
      [&](std::int64_t first, std::int64_t last) {
        std::vector<float> buffer;
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(format.block));
        for (std::int64_t block = first; block < last; ++block) {
          const std::int64_t begin = block * format.block, length = std::min(format.block, count - begin);
          const float* const from = as_floats(values, begin, length, buffer);
          float& scale = scales[static_cast<std::size_t>(block)];
          if (!format.in_4_bits()) {
            scale = encode_in_8_bits(from, length, reinterpret_cast<std::int8_t*>(to) + begin);
            continue;
          }
          scale = encode_in_4_bits(from, length, between, by_nf4 ? 15 : 14, codes.data());
          for (std::int64_t i = 0; i < length; ++i) {
            const std::int64_t element = begin + i;
            const auto code = static_cast<std::byte>(codes[static_cast<std::size_t>(i)]);
            if (element % 2 != 0)
              to[element / 2] |= code;
            else
              to[element / 2] = code << 4;
          }
        }
      },
      2);
  if (format.in_4_bits() && count % 2 != 0) to[count / 2] |= std::byte{7};  // a zero, which is not read
  write_scales(scales, format, layout, to);
}

const RegisterKernel cpu_decode{decode_kernel, DeviceKind::cpu, decode_part};
const RegisterKernel cpu_decode_rows{decode_rows_kernel, DeviceKind::cpu, decode_listed_rows};
const RegisterKernel cpu_encode{encode_kernel, DeviceKind::cpu, encode_on_cpu};

}  // namespace

void copy_part(const Tensor& part, std::int64_t first, const Tensor& whole) {
  const WeightFormat& format = whole.format();
  const Parts from(part);
  WeightFormat flat = from.format;
  flat.nested_block = 0;
  expect(flat == format && can_join(format, std::array{first, part.count()}) && first + part.count() <= whole.count(),
         "weights {} and {} cannot be joined", part.shape(), whole.shape());
  const WeightLayout layout = layout_of(format, whole.count()), before = layout_of(format, first);
  const std::int64_t codes = format.block == 0 ? part.bytes() : from.layout.scales;
  std::byte* const to = whole.data<std::byte>();
  std::memcpy(to + (format.block == 0 ? before.bytes : before.scales), from.codes, static_cast<std::size_t>(codes));
  for (std::int64_t i = 0; i < from.layout.blocks; ++i) {
    const float scale = from.scale(i);
    std::memcpy(to + layout.scales + 4 * (before.blocks + i), &scale, sizeof scale);
  }
}

}  // namespace lacuna
