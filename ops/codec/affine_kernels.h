// The parts of the affine codec: a group's step and origin, the draws of stochastic rounding, bit planes, and the loops
// from values to codes and back.
#pragma once

#include "core/dtype.h"
#include "ops/codec/affine.h"
#include "ops/tile.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace lacuna::codec {

inline constexpr std::int64_t block = 128;  // elements packed together

/// What is kept of a group: value = step · (code + origin · 2^(bits - 8)).
struct Stored {
  bf16 step;
  std::int16_t origin = 0;
};
inline constexpr std::int64_t stored_bytes = 4;
static_assert(sizeof(Stored) == stored_bytes);

/// What a group decodes with: value = step · code + origin. The origin is exact: 8 bits times 16.
struct Scale {
  double step = 0, origin = 0;
};

inline Scale scale_of(Stored stored, int bits) {
  const double step = static_cast<double>(static_cast<float>(stored.step));
  return {step, step * std::ldexp(stored.origin, bits - 8)};
}

/// The step of a group that holds a NaN or an infinity.
inline Stored not_finite() { return {bf16(std::numeric_limits<float>::quiet_NaN()), 0}; }

/// Least bf16 not below a positive value; the greatest finite one for what is beyond it.
inline bf16 round_up(double value) {
  const auto nearest = static_cast<float>(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest) + (static_cast<double>(nearest) < value ? 1 : 0);
  bf16 up;
  up.bits = static_cast<std::uint16_t>(std::min((bits + 0xffffU) >> 16, 0x7f7fU));
  return up;
}

/// Chooses steps and origins for codes of one width.
class Fitting {
 public:
  explicit Fitting(int bits)
      : bits_(bits),
        unit_(std::ldexp(1, bits - 8)),
        steps_a_range_(1 / ((1 << bits) - 1 - unit_)),  // the origin may lie a unit below the least value
        steps_an_offset_(1 / (greatest_origin * unit_)) {}

  /// For a finite range.
  Stored fit(Range range) const {
    const double least = static_cast<double>(range.least), most = static_cast<double>(range.most);
    if (least == most) return fit_constant(least);
    const bf16 step = round_up(std::max((most - least) * steps_a_range_, std::abs(least) * steps_an_offset_));
    const double units = least / (static_cast<double>(static_cast<float>(step)) * unit_);
    return {step, static_cast<std::int16_t>(std::floor(units))};
  }

 private:
  static constexpr int greatest_origin = 32767;
  static constexpr int least_exponent = -133;  // of a bf16

  /// Every code will be 0: the origin holds the leading 15 bits of the value, the step a power of two.
  Stored fit_constant(double value) const {
    if (value == 0) return {};
    int exponent = 0;
    std::frexp(value, &exponent);  // |value| < 2^exponent
    exponent = std::max(exponent - 15 + 8 - bits_, least_exponent);
    double units = std::nearbyint(std::ldexp(value, 8 - bits_ - exponent));
    if (units > greatest_origin) {
      ++exponent;
      units /= 2;
    }
    return {bf16(std::ldexp(1.0F, exponent)), static_cast<std::int16_t>(units)};
  }

  int bits_;
  double unit_;  // of the origin, in steps
  double steps_a_range_, steps_an_offset_;
};

/// Draws of stochastic rounding: element e gets half e % 2 of a 32-bit hash of the key and e / 2.
class Draws {
 public:
  Draws(std::uint64_t key, Rounding rounding) : key_(key), stochastic_(rounding == Rounding::stochastic) {
    if (!stochastic_) draws_.fill(0x8000);
  }

  /// The draws of a block's elements, in 2^-16 steps: what to add before cutting off.
  const std::array<std::uint16_t, block>& of_block(std::int64_t index) {
    if (stochastic_) draw(static_cast<std::uint64_t>(index) * (block / 2));
    return draws_;
  }

 private:
  /// Steele et al., "Fast splittable pseudorandom number generators" (OOPSLA 2014), the finaliser: neighbouring keys
  /// become unlike ones.
  static std::uint64_t mix(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }

  /// Wellons' lowbias32 with half the key before and half of it amid.
  void draw(std::uint64_t first) {
    const std::uint64_t mixed = mix(mix(key_) + (first >> 32));
    const auto before = static_cast<std::uint32_t>(mixed), amid = static_cast<std::uint32_t>(mixed >> 32);
    std::array<std::uint32_t, block / 2> words;
    for (std::uint32_t i = 0; i < block / 2; ++i) {
      std::uint32_t x = (static_cast<std::uint32_t>(first) + i) ^ before;
      x = (x ^ (x >> 16)) * 0x7feb352dU;
      x = (x ^ (x >> 15) ^ amid) * 0x846ca68bU;
      words[i] = x ^ (x >> 16);
    }
    draws_ = std::bit_cast<std::array<std::uint16_t, block>>(words);
  }

  std::uint64_t key_;
  bool stochastic_;
  std::array<std::uint16_t, block> draws_{};
};

/// A value as the codec sees it: f32, f64 beyond its range held to its ends.
template <class T>
inline float to_coded(T value) {
  if constexpr (std::is_same_v<T, double>) {
    constexpr auto most = static_cast<double>(std::numeric_limits<float>::max());
    if (std::isfinite(value)) return static_cast<float>(std::clamp(value, -most, most));
  }
  return static_cast<float>(value);
}

using Floats = tile::Vector<float>;
inline constexpr std::int64_t lanes = tile::lanes<float>;

/// The first `count` lanes; the others get the first one's value.
template <class T>
inline Floats load_coded(const T* from, std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    if (count >= lanes) return tile::load(from);
  } else if constexpr (std::is_same_v<T, bf16>) {
    typedef std::uint16_t Halves __attribute__((vector_size(lanes * 2), aligned(2)));
    typedef std::uint32_t Words __attribute__((vector_size(lanes * 4)));
    if (count >= lanes)
      return std::bit_cast<Floats>(__builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16);
  }
  Floats values;
  for (std::int64_t i = 0; i < lanes; ++i) values[i] = to_coded(from[i < count ? i : 0]);
  return values;
}

/// A range as it is being found: NaN is in neither end, but spoils the mark.
struct Extremes {
  Floats least = Floats{} + std::numeric_limits<float>::infinity();
  Floats most = Floats{} - std::numeric_limits<float>::infinity();
  Floats mark{};  // NaN once a NaN or an infinity came

  void add(const Floats& values) {
    least = values < least ? values : least;
    most = values > most ? values : most;
    mark += values * 0.0F;
  }
  void add(const Extremes& other) {
    least = other.least < least ? other.least : least;
    most = other.most > most ? other.most : most;
    mark += other.mark;
  }
  /// Every lane meets every other.
  template <std::size_t step = lanes / 2>
  void fold() {
    add(turned<step>(std::make_index_sequence<lanes>{}));
    if constexpr (step > 1) fold<step / 2>();
  }

 private:
  template <std::size_t step, std::size_t... lane>
  Extremes turned(std::index_sequence<lane...>) const {
    return {__builtin_shufflevector(least, least, (lane ^ step)...),
            __builtin_shufflevector(most, most, (lane ^ step)...),
            __builtin_shufflevector(mark, mark, (lane ^ step)...)};
  }
};

struct Found {
  Range range;
  bool finite = true;
};

/// The range of `count` values, one or more, and whether all are finite.
template <class T>
inline Found range_of(const T* values, std::int64_t count) {
  Extremes even, odd;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even.add(load_coded(values + i, lanes));
    odd.add(load_coded(values + i + lanes, lanes));
  }
  for (; i < count; i += lanes) even.add(load_coded(values + i, count - i));
  even.add(odd);
  even.fold();
  return {{even.least[0], even.most[0]}, even.mark[0] == 0};
}

/// How a group's values become codes: ((value - origin) · scale) / 2^16, with scale = 2^16 / step.
struct Slope {
  double origin = 0, scale = 0;
  /// Differences or the scale do not fit floats.
  bool wide = false;
};

inline Slope slope_of(Stored stored, Range range, int bits) {
  const Scale scale = scale_of(stored, bits);
  // Constant groups have the codes 0; so have those that are not finite.
  if (!(range.least < range.most) || !(scale.step > 0)) return {};
  return {scale.origin, 65536 / scale.step,
          std::max(std::abs(range.least), std::abs(range.most)) > 0x1p125F || scale.step < 0x1p-110};
}

/// One origin and scale for all elements.
template <class C>
struct Uniform {
  C first, second;
  C origin(std::int64_t) const { return first; }
  C factor(std::int64_t) const { return second; }
};
/// An origin and a scale an element.
template <class C>
struct Each {
  const C *first, *second;
  C origin(std::int64_t i) const { return first[i]; }
  C factor(std::int64_t i) const { return second[i]; }
};

/// codes[i] = (value - origin) · factor in 2^-16 steps plus the draw, cut off; saturating. The sum is whole numbers, so
/// that no rounding of it favours a side.
template <class C, class T, class Parameters>
inline void to_codes(const T* values, std::int64_t count, const Parameters& by, int bits, const std::uint16_t* draws,
                     std::uint8_t* codes) {
  const auto top = static_cast<C>(((1 << bits) - 1) << 16);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    C v = (static_cast<C>(to_coded(values[i])) - by.origin(i)) * by.factor(i) + C(0.5);
    v = v > 0 ? v : 0;  // NaN becomes 0
    v = v < top ? v : top;
    codes[i] = static_cast<std::uint8_t>((static_cast<std::int32_t>(v) + draws[i]) >> 16);
  }
}

/// values[i] = code · step + origin.
template <class T, class Parameters>
inline void to_values(const std::uint8_t* codes, std::int64_t count, const Parameters& by, T* values) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(static_cast<float>(codes[i]) * by.factor(i) + by.origin(i));
}

template <class T>
inline constexpr double most_finite = static_cast<double>(std::numeric_limits<T>::max());
template <>
inline constexpr double most_finite<bf16> = 0x1.FEp127;
template <>
inline constexpr double most_finite<f16> = 65504;

/// Some code of the group may stand for more than T holds, or than is kept right in floats.
template <class T>
inline bool beyond(const Scale& scale, int bits) {
  return !(std::abs(scale.origin) + scale.step * (1 << bits) <=
           std::min(most_finite<T>, static_cast<double>(std::numeric_limits<float>::max())));
}
/// The same values, held to what is finite: a code rounded up at the end of the range stays a number.
template <class T, class Parameters>
inline void to_values_held(const std::uint8_t* codes, std::int64_t count, const Parameters& by, T* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double value =
        std::clamp(codes[i] * by.factor(i) + by.origin(i), -most_finite<T>, most_finite<T>);  // NaN passes
    if constexpr (std::is_same_v<T, double>)
      values[i] = value;
    else
      values[i] = static_cast<T>(static_cast<float>(value));
  }
}

/// Bytes of a plane of `width` bits for `count` elements of a block.
inline std::int64_t plane_bytes(std::int64_t count, int width) { return (count * width + 7) / 8; }

/// Bytes of `count` elements of a block.
inline std::int64_t packed_bytes(std::int64_t count, int bits) {
  std::int64_t bytes = 0;
  for (const int width : {8, 4, 2, 1})
    if ((bits & width) != 0) bytes += plane_bytes(count, width);
  return bytes;
}

/// Byte j of `bytes` takes `width` bits, from `shift` on, of the codes j, j + bytes, j + 2·bytes...
template <int width>
inline void pack_plane(const std::uint8_t* codes, int shift, std::int64_t bytes, std::uint8_t* out) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < bytes; ++j) {
    unsigned byte = 0;
#pragma GCC unroll 8
    for (int part = 0; part < 8 / width; ++part)
      byte |= ((codes[j + part * bytes] >> shift) & ((1U << width) - 1)) << (part * width);
    out[j] = static_cast<std::uint8_t>(byte);
  }
}
template <int width>
inline void unpack_plane(const std::uint8_t* in, int shift, std::int64_t bytes, std::uint8_t* codes) {
#pragma GCC unroll 8
  for (int part = 0; part < 8 / width; ++part) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < bytes; ++j) {
      const unsigned bits = ((in[j] >> (part * width)) & ((1U << width) - 1)) << shift;
      codes[j + part * bytes] = static_cast<std::uint8_t>(shift == 0 ? bits : codes[j + part * bytes] | bits);
    }
  }
}

/// Calls `f(width, shift, bytes, offset)` for each plane of a block: its bits, an integral constant; the place of its
/// lowest bit in a code; its length and place among the block's bytes.
template <class F>
inline void for_planes(int bits, std::int64_t count, F&& f) {
  int shift = 0;
  std::int64_t offset = 0;
  const auto plane = [&]<int width>(std::integral_constant<int, width> constant) {
    if ((bits & width) == 0) return;
    const std::int64_t bytes = plane_bytes(count, width);
    f(constant, shift, bytes, offset);
    shift += width;
    offset += bytes;
  };
  plane(std::integral_constant<int, 8>{});
  plane(std::integral_constant<int, 4>{});
  plane(std::integral_constant<int, 2>{});
  plane(std::integral_constant<int, 1>{});
}

/// Packs a block of `count` codes. `codes` [block]: 0 behind `count`.
inline void pack(const std::uint8_t* codes, std::int64_t count, int bits, std::uint8_t* out) {
  for_planes(bits, count,
             [&]<int width>(std::integral_constant<int, width>, int shift, std::int64_t bytes, std::int64_t offset) {
               if (count == block)
                 pack_plane<width>(codes, shift, block * width / 8, out + offset);
               else
                 pack_plane<width>(codes, shift, bytes, out + offset);
             });
}
/// Unpacks a block of `count` codes into `codes` [block]; what lies behind `count` is not meant.
inline void unpack(const std::uint8_t* in, std::int64_t count, int bits, std::uint8_t* codes) {
  for_planes(bits, count,
             [&]<int width>(std::integral_constant<int, width>, int shift, std::int64_t bytes, std::int64_t offset) {
               if (count == block)
                 unpack_plane<width>(in + offset, shift, block * width / 8, codes);
               else
                 unpack_plane<width>(in + offset, shift, bytes, codes);
             });
}

}  // namespace lacuna::codec
