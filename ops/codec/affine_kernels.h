// The parts of the affine codec: a group's step and origin, the draws of stochastic rounding, and the loops from values
// to codes and back.
#pragma once

#include "core/dtype.h"
#include "ops/codec/affine.h"
#include "ops/codec/planes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace lacuna::codec {

/// What is kept of a group: value = step · (code + origin · 2^(bits - 8)). Below zero the step is that of the origin
/// alone, which all values of the group are.
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
  const double origin = std::abs(step) * stored.origin / (1 << (8 - bits));
  return {step < 0 ? 0 : step, origin};
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
    return {step,
            static_cast<std::int16_t>(std::floor(least / (static_cast<double>(static_cast<float>(step)) * unit_)))};
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
    return {bf16(-std::ldexp(1.0F, exponent)), static_cast<std::int16_t>(units)};
  }

  int bits_;
  double unit_;  // of the origin, in steps
  double steps_a_range_, steps_an_offset_;
};

template <std::size_t by, class Lanes, std::size_t... i>
inline Lanes shifted(const Lanes& lanes, std::index_sequence<i...>) {
  return __builtin_shufflevector(lanes, lanes, ((i + by) % sizeof...(i))...);
}
/// The lanes of a vector, each taking the place `by` before its own.
template <std::size_t by, class Lanes>
inline Lanes shifted(const Lanes& lanes) {
  return shifted<by>(lanes, std::make_index_sequence<sizeof(Lanes) / sizeof(lanes[0])>());
}

/// Steele et al., "Fast splittable pseudorandom number generators" (OOPSLA 2014), the finaliser: neighbouring keys
/// become unlike ones.
inline std::uint64_t scrambled(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}
/// A vector of 32-bit counters, each hashed with the key: Wellons' lowbias32 with half the key before and half of it
/// amid.
template <class Words>
inline Words scrambled(Words x, std::uint64_t key) {
  x ^= static_cast<std::uint32_t>(key);
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15) ^ static_cast<std::uint32_t>(key >> 32)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Draws of stochastic rounding. Of a block's elements an eighth of their number is hashed to 32-bit words, of which
/// each serves two; the other draws are sums without carry of two such words, each pair of words taken once. Any two
/// draws are independent, which is all that means and variances of sums depend on.
class Draws {
 public:
  Draws(std::uint64_t key, Rounding rounding)
      : key_(scrambled(key)), mixed_(scrambled(key_)), stochastic_(rounding != Rounding::nearest) {
    if (!stochastic_) draws_.fill(0x8000);
  }

  /// The draws of a block's elements, in 2^-16 steps: what to add before cutting off.
  const std::array<std::uint16_t, block>& of_block(std::int64_t index) {
    if (stochastic_) draw(static_cast<std::uint64_t>(index) * hashed);
    return draws_;
  }

 private:
  static constexpr std::size_t sets = 4, hashed = block / 2 / sets;
  static_assert(hashed > 2 * (sets - 1), "pairs as far apart as half of them come twice");
  typedef std::uint32_t Words __attribute__((vector_size(4 * hashed)));

  template <std::size_t... i>
  static constexpr Words counted(std::index_sequence<i...>) {
    return Words{static_cast<std::uint32_t>(i)...};
  }

  void draw(std::uint64_t first) {
    if (first >> 32 != high_) {
      high_ = first >> 32;
      mixed_ = scrambled(key_ + high_);
    }
    constexpr auto each = std::make_index_sequence<hashed>();
    const Words x = scrambled(counted(each) + static_cast<std::uint32_t>(first), mixed_);
    write<0>(x);
    write<1>(x ^ shifted<1>(x));
    write<2>(x ^ shifted<2>(x));
    write<3>(x ^ shifted<3>(x));
  }
  template <std::size_t set>
  void write(Words words) {
    static_assert(set < sets);
    std::memcpy(draws_.data() + set * 2 * hashed, &words, sizeof words);
  }

  std::uint64_t key_, high_ = 0, mixed_;  // the key, and what it is mixed to for pairs with these upper 32 bits
  bool stochastic_;                       // otherwise all are half a step
  alignas(64) std::array<std::uint16_t, block> draws_{};  // no vector of it across two cache lines
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

/// Whole numbers in the order of the values whose bits they come from, for every floating type: their least and
/// greatest are found many at a time, and infinities and NaN lie at the ends.
template <class T>
using Key = std::conditional_t<is_half<T>, std::int16_t,
                               std::conditional_t<std::is_same_v<T, float>, std::int32_t, std::int64_t>>;

/// Its own inverse.
template <class K>
constexpr K turned(K key) {
  return static_cast<K>(key ^ ((key >> std::numeric_limits<K>::digits) & std::numeric_limits<K>::max()));
}
template <class T>
inline Key<T> key_of(T value) {
  if constexpr (is_half<T>)
    return turned(static_cast<Key<T>>(value.bits));
  else
    return turned(std::bit_cast<Key<T>>(value));
}

/// The range of values, and whether all are finite.
struct Found {
  Range range;
  bool finite = true;
};

template <class T>
inline Found found_between(Key<T> least, Key<T> most) {
  const float low = to_coded(std::bit_cast<T>(turned(least))), high = to_coded(std::bit_cast<T>(turned(most)));
  return {{low, high}, std::isfinite(low) && std::isfinite(high)};
}

/// The least and the greatest of values that come in pieces, by lanes of a vector until they are asked for.
template <class T>
class Extremes {
 public:
  void add(const T* values, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      Lanes keys;
      std::memcpy(&keys, values + i, sizeof keys);
      keys ^= (keys >> limits::digits) & limits::max();
      least_ = keys < least_ ? keys : least_;
      most_ = keys > most_ ? keys : most_;
    }
    for (; i < count; ++i) {
      const Key<T> key = key_of(values[i]);
      rest_least_ = key < rest_least_ ? key : rest_least_;
      rest_most_ = key > rest_most_ ? key : rest_most_;
    }
  }
  void add(const Extremes& other) {
    rest_least_ = std::min(least(), other.least());
    rest_most_ = std::max(most(), other.most());
  }
  Key<T> least() const {
    const Lanes all = folded<lanes / 2>(least_, [](Lanes a, Lanes b) { return a < b ? a : b; });
    return std::min<Key<T>>(all[0], rest_least_);
  }
  Key<T> most() const {
    const Lanes all = folded<lanes / 2>(most_, [](Lanes a, Lanes b) { return a > b ? a : b; });
    return std::max<Key<T>>(all[0], rest_most_);
  }
  Found found() const { return found_between<T>(least(), most()); }

 private:
  using limits = std::numeric_limits<Key<T>>;
  static constexpr int lanes = 64 / sizeof(T);
  typedef Key<T> Lanes __attribute__((vector_size(64)));

  /// Every lane: what `choose` makes of all.
  template <std::size_t half, class F>
  static Lanes folded(Lanes of, const F& choose) {
    of = choose(of, shifted<half>(of));
    if constexpr (half > 1) return folded<half / 2>(of, choose);
    return of;
  }

  Lanes least_ = Lanes{} + limits::max(), most_ = Lanes{} + limits::min();
  Key<T> rest_least_ = limits::max(), rest_most_ = limits::min();
};

/// Of one value or more.
template <class T>
inline Found range_of(const T* values, std::int64_t count) {
  Extremes<T> extremes;
  extremes.add(values, count);
  return extremes.found();
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

/// What codes become values with, or values codes.
template <class C>
struct Line {
  C origin, factor;
};

/// A constant that the compiler does not see: holding values to a known one takes a comparison and a choice, to an
/// unknown one a single instruction (GCC 12).
template <class C>
inline C unseen(C constant) {
#ifdef __x86_64__
  __asm__("" : "+v"(constant));
#endif
  return constant;
}

/// codes[i] = (value - origin) · factor in 2^-16 steps plus the draw, cut off; saturating. The sum is one of whole
/// numbers, so that no rounding of it favours a side. C: float, or double where floats do not do.
template <class C, class T>
inline void to_codes(const T* values, std::int64_t count, Line<C> by, int bits, const std::uint16_t* draws,
                     std::uint8_t* codes) {
  const C bottom = unseen(C(0.5)), top = static_cast<C>(((1 << bits) - 1) << 16);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    C v = (static_cast<C>(to_coded(values[i])) - by.origin) * by.factor + C(0.5);
    v = v > bottom ? v : bottom;  // NaN too
    v = v < top ? v : top;
    codes[i] = static_cast<std::uint8_t>((static_cast<std::int32_t>(v) + draws[i]) >> 16);
  }
}

template <class T>
inline T to_number(float value) {
  if constexpr (std::is_same_v<T, bf16>) {  // the rounding of bf16(float), without its question about NaN
    const auto bits = std::bit_cast<std::uint32_t>(value);
    T rounded;
    rounded.bits = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    return rounded;
  } else {
    return static_cast<T>(value);
  }
}

/// values[i] = code · step + origin: numbers all.
template <class T>
inline void to_values(const std::uint8_t* codes, std::int64_t count, Line<float> by, T* values) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = to_number<T>(static_cast<float>(codes[i]) * by.factor + by.origin);
}

/// A line by 2^-16 steps for codes less what was drawn: of a draw with its mean added, which is half a step less half
/// of its own unit.
template <class C>
inline Line<C> dithered(Line<double> by) {
  const double factor = by.factor / 65536;
  return {static_cast<C>(by.origin + 32767.5 * factor), static_cast<C>(factor)};
}

/// values[i] = (2^16 code - draw) · factor + origin: numbers all. `by`: as `dithered` makes it.
template <class T>
inline void to_values_dithered(const std::uint8_t* codes, std::int64_t count, Line<float> by,
                               const std::uint16_t* draws, T* values) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t code = (static_cast<std::int32_t>(codes[i]) << 16) - draws[i];
    values[i] = to_number<T>(static_cast<float>(code) * by.factor + by.origin);
  }
}

/// Calls `f` with `count`: as a constant where it is a usual one, which makes a better loop.
template <class F>
inline void with_count(std::int64_t count, const F& f) {
  if (count == block)
    f(block);
  else if (count == block / 2)
    f(block / 2);
  else if (count == block / 4)
    f(block / 4);
  else
    f(count);
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
/// A value of T that is finite, or NaN.
template <class T>
inline T held(double value) {
  value = std::clamp(value, -most_finite<T>, most_finite<T>);  // NaN passes
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<T>(static_cast<float>(value));
}
/// The same values, held to what is finite: a code rounded up at the end of the range stays a number. `draws`: null
/// where codes stand for themselves.
template <class T>
inline void to_values_held(const std::uint8_t* codes, std::int64_t count, Line<double> by, const std::uint16_t* draws,
                           T* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double code = draws == nullptr ? codes[i] : codes[i] * 65536.0 - draws[i];
    values[i] = held<T>(code * by.factor + by.origin);
  }
}

}  // namespace lacuna::codec
