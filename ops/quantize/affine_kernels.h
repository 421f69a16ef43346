// Loops of affine quantization: minimum and maximum, draws for stochastic rounding, values to codes, codes to values.
#pragma once

#include "core/dtype.h"
#include "core/vector.h"
#include "ops/quantize/affine.h"
#include "ops/quantize/draws.h"
#include "ops/quantize/group_params.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/simd.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace lacuna::quant {

inline constexpr std::int64_t serial_below = 16384;  // elements that one thread handles alone

/// Draws for stochastic rounding, 16 bits per element, block by block. Only block / 8 words of 32 bits are hashed; each
/// gives two draws. The other draws are XORs of two hashed words, each pair used once. Draws are therefore pairwise
/// independent, which is all that the mean and variance of a sum depend on.
class Draws {
 public:
  Draws(std::uint64_t key, Rounding rounding)
      : key_(splitmix64(key)), mixed_(splitmix64(key_)), stochastic_(rounding != Rounding::nearest) {
    if (!stochastic_) draws_.fill(0x8000);
  }

  /// Draws of block `index` in units of 2^-16 steps, to be added before truncation.
  [[gnu::always_inline]] inline const std::array<std::uint16_t, block>& of_block(std::int64_t index) {
    if (stochastic_) draw(static_cast<std::uint64_t>(index) * hashed);
    return draws_;
  }

 private:
  static constexpr std::size_t sets = 4, hashed = block / 2 / sets;
  static_assert(hashed > 2 * (sets - 1), "pairs half the number of words apart would be used twice");
  static_assert(hashed % lanes == 0);
  static constexpr std::size_t vectors = hashed / lanes;
  static constexpr auto each = std::make_index_sequence<lanes>();
  using Words = Lanes<std::uint32_t>;

  template <std::size_t... i>
  static constexpr Words counted(std::index_sequence<i...>) {
    return Words{static_cast<std::uint32_t>(i)...};
  }
  /// Words `by`, `by` + 1, ... of the concatenation of a and b.
  template <std::size_t by, std::size_t... i>
  static Words shifted(const Words& a, const Words& b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, (i + by)...);
  }

  /// Out of line: runs once in 2^32 counters.
  [[gnu::noinline]] void mix(std::uint64_t high) {
    high_ = high;
    mixed_ = splitmix64(key_ + high);
  }
  [[gnu::always_inline]] inline void draw(std::uint64_t first) {
    if (first >> 32 != high_) mix(first >> 32);
    Words x[vectors];
    for (std::size_t i = 0; i < vectors; ++i)
      x[i] = lowbias32(counted(each) + static_cast<std::uint32_t>(first + i * lanes), mixed_);
    write_hashed(x);
    write_sums<1>(x);
    write_sums<2>(x);
    write_sums<3>(x);
  }
  void write_hashed(const Words* x) {
    for (std::size_t i = 0; i < vectors; ++i) write(x[i], i * lanes);
  }
  /// XORs each word with the word `set` places further on, cyclically.
  template <std::size_t set>
  void write_sums(const Words* x) {
    static_assert(set < sets && set < lanes);
    for (std::size_t i = 0; i < vectors; ++i)
      write(x[i] ^ shifted<set>(x[i], x[(i + 1) % vectors], each), set * hashed + i * lanes);
  }
  /// Stores two draws per word from word `place` on. One vector at a time: several would be spilled to memory first.
  void write(const Words& words, std::size_t place) { std::memcpy(draws_.data() + 2 * place, &words, sizeof words); }

  std::uint64_t key_, high_ = 0, mixed_;  // mixed_: key_ mixed with the upper 32 bits of the counter, high_
  bool stochastic_;                       // otherwise every draw is half a step: rounding to nearest
  alignas(64) std::array<std::uint16_t, block> draws_{};  // vectors do not straddle cache lines
};

/// The f32 that is quantized for a value; finite f64 values saturate at the range of f32.
template <class T>
inline float to_f32(T value) {
  if constexpr (std::is_same_v<T, double>) {
    constexpr auto max = static_cast<double>(std::numeric_limits<float>::max());
    if (std::isfinite(value)) return static_cast<float>(std::clamp(value, -max, max));
  }
  return static_cast<float>(value);
}

/// Integers in the order of the floating-point values whose bits they are made from. Minimum and maximum over keys
/// vectorize for every type; infinities and NaN lie at the ends.
template <class T>
using Key = std::conditional_t<is_half<T>, std::int16_t,
                               std::conditional_t<std::is_same_v<T, float>, std::int32_t, std::int64_t>>;

/// Bits of a value to its key, and a key to the bits: the function is its own inverse.
template <class K>
constexpr K ordered(K key) {
  return static_cast<K>(key ^ ((key >> std::numeric_limits<K>::digits) & std::numeric_limits<K>::max()));
}
template <class T>
inline Key<T> key_of(T value) {
  if constexpr (is_half<T>)
    return ordered(static_cast<Key<T>>(value.bits));
  else
    return ordered(std::bit_cast<Key<T>>(value));
}

/// Range of some values, and whether all are finite.
struct Observed {
  Range range;
  bool finite = true;
};

template <class T>
inline Observed observed_between(Key<T> min, Key<T> max) {
  const float low = to_f32(std::bit_cast<T>(ordered(min))), high = to_f32(std::bit_cast<T>(ordered(max)));
  return {{low, high}, std::isfinite(low) && std::isfinite(high)};
}

/// Minimum and maximum of values that arrive in pieces; lanes are reduced when the result is read.
///
/// As signed integers, the bits of positive values are in the values' order; those of negative values are smaller and
/// in reverse order. As unsigned integers, those of negative values are larger than all positive ones. Signed minimum,
/// signed maximum and unsigned maximum of the raw bits therefore determine the result: three instructions per vector
/// with AVX2 (but for f64), where keys would take five.
///
/// At least one cache line each: threads write to neighbours.
template <class T>
class alignas(64) MinMax {
 public:
  void add(const T* values, std::int64_t count) {
    const std::int64_t whole = count / at_once;
    Bits min = min_, max = max_;  // local copies: the compiler cannot rule out that `values` alias this object
    Unsigned max_unsigned = max_unsigned_;
#pragma GCC unroll 4  // loop control would be a third of so short an iteration
    for (std::int64_t i = 0; i < whole; ++i) {
      Bits bits;
      std::memcpy(&bits, values + i * at_once, sizeof bits);
      const auto without_sign = std::bit_cast<Unsigned>(bits);
      min = bits < min ? bits : min;
      max = bits > max ? bits : max;
      max_unsigned = without_sign > max_unsigned ? without_sign : max_unsigned;
    }
    min_ = min;
    max_ = max;
    max_unsigned_ = max_unsigned;
    for (std::int64_t i = whole * at_once; i < count; ++i) {
      const Key<T> key = key_of(values[i]);
      tail_min_ = key < tail_min_ ? key : tail_min_;
      tail_max_ = key > tail_max_ ? key : tail_max_;
    }
  }
  void add(Key<T> min_key, Key<T> max_key) {
    tail_min_ = std::min(tail_min_, min_key);
    tail_max_ = std::max(tail_max_, max_key);
  }
  void add(const MinMax& other) { add(other.min(), other.max()); }
  /// Key of the minimum; the largest key if there were no values.
  Key<T> min() const {
    const auto negative = std::bit_cast<Bits>(max_unsigned_);  // the minimum, if any value is negative
    const Bits keys = negative < 0 ? keys_of(negative) : min_;
    const Bits all = reduced<at_once / 2>(keys, [](Bits a, Bits b) { return a < b ? a : b; });
    return std::min<Key<T>>(all[0], tail_min_);
  }
  /// Key of the maximum; the smallest key if there were no values.
  Key<T> max() const {
    const Bits keys = max_ < 0 ? keys_of(min_ | limits::min()) : max_;  // max_ < 0: no value is positive
    const Bits all = reduced<at_once / 2>(keys, [](Bits a, Bits b) { return a > b ? a : b; });
    return std::max<Key<T>>(all[0], tail_max_);
  }
  Observed observed() const { return observed_between<T>(min(), max()); }

 private:
  using limits = std::numeric_limits<Key<T>>;
  static constexpr int at_once = vector_bytes / sizeof(T);
  typedef Key<T> Bits __attribute__((vector_size(vector_bytes)));
  typedef std::make_unsigned_t<Key<T>> Unsigned __attribute__((vector_size(vector_bytes)));

  static Bits keys_of(Bits bits) { return bits ^ ((bits >> limits::digits) & limits::max()); }
  /// Combines all lanes with `choose`; every lane of the result holds it.
  template <std::size_t half, class F>
  static Bits reduced(Bits of, const F& choose) {
    of = choose(of, exchanged<half>(of));
    if constexpr (half > 1) return reduced<half / 2>(of, choose);
    return of;
  }

  Bits min_ = Bits{} + limits::max(), max_ = Bits{} + limits::min();
  Unsigned max_unsigned_{};
  Key<T> tail_min_ = limits::max(), tail_max_ = limits::min();  // of values that fill no vector
};

/// Range of `count` values, at least one.
template <class T>
inline Observed observe(const T* values, std::int64_t count) {
  MinMax<T> min_max;
  min_max.add(values, count);
  return min_max.observed();
}

/// Hides a constant from the optimizer: GCC 12 clamps to a known constant with compare and blend, to an unknown value
/// with one min or max instruction.
template <class C>
inline C opaque(C constant) {
#ifdef __x86_64__
  __asm__("" : "+v"(constant));
#endif
  return constant;
}

/// `values` [lanes] by to_f32.
template <class T>
[[gnu::always_inline]] inline Lanes<float> load_f32(const T* values) {
  if constexpr (std::is_same_v<T, double>) {
    float floats[lanes];
    for (std::int64_t i = 0; i < lanes; ++i) floats[i] = to_f32(values[i]);
    return load(floats);
  } else {
    return load_as<float>(values);
  }
}

/// (value - origin) · factor in units of 2^-16 steps, clamped to the range of codes. V and By: float or Lanes<float>.
template <class V, class By>
[[gnu::always_inline]] inline V in_steps(V value, By origin, By factor, V bottom, V top) {
  V v = (value - origin) * factor + 0.5F;
  v = v > bottom ? v : bottom;  // NaN too
  return v < top ? v : top;
}

/// One line for all elements.
struct SharedLine {
  Line<float> line;
  float origin(std::int64_t) const { return line.origin; }
  float factor(std::int64_t) const { return line.factor; }
  float origins(std::int64_t) const { return line.origin; }
  float factors(std::int64_t) const { return line.factor; }
  SharedLine rest(std::int64_t) const { return *this; }
  template <class V>
  static V scaled(V value) {
    return value;
  }
};
/// The same for values times a number.
struct ScaledLine : SharedLine {
  float scale;
  ScaledLine rest(std::int64_t) const { return *this; }
  template <class V>
  V scaled(V value) const {
    return value * scale;
  }
};

/// A line for each element.
struct ElementLines {
  const float *origin_of, *factor_of;  // [count]
  float origin(std::int64_t i) const { return origin_of[i]; }
  float factor(std::int64_t i) const { return factor_of[i]; }
  /// The origins of `lanes` elements.
  Lanes<float> origins(std::int64_t i) const { return load(origin_of + i); }
  Lanes<float> factors(std::int64_t i) const { return load(factor_of + i); }
  ElementLines rest(std::int64_t i) const { return {origin_of + i, factor_of + i}; }
  template <class V>
  static V scaled(V value) {
    return value;
  }
};

/// code = ((value - origin) · factor + draw) >> 16, saturating. The addition is on integers, so that its rounding is
/// not biased. Lines: SharedLine, ScaledLine or ElementLines.
template <class Lines>
class Encoder {
 public:
  Encoder(Lines lines, int bits)
      : lines_(lines), bottom_(opaque(0.5F)), top_(opaque(static_cast<float>(((1 << bits) - 1) << 16))) {}

  /// All arrays: [count].
  template <class T>
  [[gnu::always_inline]] inline void operator()(const T* values, std::int64_t count, const std::uint16_t* draws,
                                                std::uint8_t* codes) const {
    const auto sum = [&](std::int64_t i) __attribute__((always_inline)) {
      const auto steps = in_steps(lines_.scaled(load_f32(values + i)), lines_.origins(i), lines_.factors(i),
                                  Lanes<float>{} + bottom_, Lanes<float>{} + top_);
      return converted<std::int32_t>(steps) + load_as<std::int32_t>(draws + i);
    };
    std::int64_t i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      const Lanes<std::int32_t> sums[4] = {sum(i), sum(i + lanes), sum(i + 2 * lanes), sum(i + 3 * lanes)};
      store_third_bytes(sums, codes + i);
    }
    for (; i + lanes <= count; i += lanes) store<std::uint8_t>(cut<std::uint8_t, 16>(sum(i)), codes + i);
    if (i < count) encode_tail(values + i, count - i, lines_.rest(i), draws + i, codes + i);
  }

 private:
  /// Fewer than `lanes` elements. Not inlined: it would take registers from the vector loop.
  template <class T>
  [[gnu::noinline]] void encode_tail(const T* values, std::int64_t count, Lines lines, const std::uint16_t* draws,
                                     std::uint8_t* codes) const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const float steps = in_steps(lines.scaled(to_f32(values[i])), lines.origin(i), lines.factor(i), bottom_, top_);
      codes[i] = static_cast<std::uint8_t>((static_cast<std::int32_t>(steps) + draws[i]) >> 16);
    }
  }

  Lines lines_;
  float bottom_, top_;
};

/// The line that decodes 2^16 · code - draw: in units of 2^-16 steps, its origin moved by the mean draw 32767.5.
template <class C>
inline Line<C> dithered_line(Line<double> by) {
  const double factor = by.factor / 65536;
  return {static_cast<C>(by.origin + 32767.5 * factor), static_cast<C>(factor)};
}

/// value = code · step + origin, finite. With draws: (2^16 · code - draw) · factor + origin, by dithered_line.
template <bool drawn, class Lines>
class Decoder {
 public:
  explicit Decoder(Lines lines) : lines_(lines) {}

  /// All arrays: [count]; `draws` is null unless `drawn`.
  template <class T>
  [[gnu::always_inline]] inline void operator()(const std::uint8_t* codes, std::int64_t count,
                                                const std::uint16_t* draws, T* values) const {
    std::int64_t i = 0;
#pragma GCC unroll 4
    for (; i + lanes <= count; i += lanes) decode(codes, i, draws, values);
    if (i < count) decode_tail(codes + i, count - i, lines_.rest(i), drawn ? draws + i : nullptr, values + i);
  }

 private:
  /// Elements [i, i + lanes).
  template <class T>
  [[gnu::always_inline]] inline void decode(const std::uint8_t* codes, std::int64_t i, const std::uint16_t* draws,
                                            T* values) const {
    auto code = load_as<std::int32_t>(codes + i);
    if constexpr (drawn) code = (code << 16) - load_as<std::int32_t>(draws + i);
    store_as(__builtin_convertvector(code, Lanes<float>) * lines_.factors(i) + lines_.origins(i), values + i);
  }
  /// Fewer than `lanes` elements.
  template <class T>
  [[gnu::always_inline]] inline void decode_tail(const std::uint8_t* codes, std::int64_t count, Lines lines,
                                                 const std::uint16_t* draws, T* values) const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      std::int32_t code = codes[i];
      if constexpr (drawn) code = (code << 16) - draws[i];
      values[i] = static_cast<T>(static_cast<float>(code) * lines.factor(i) + lines.origin(i));
    }
  }

  Lines lines_;
};

/// Calls `f(count)`, with frequent counts as compile-time constants: an inlined loop of known length is faster.
template <class F>
[[gnu::always_inline]] inline void with_count(std::int64_t count, const F& f) {
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
inline constexpr double max_finite = static_cast<double>(std::numeric_limits<T>::max());
template <>
inline constexpr double max_finite<bf16> = 0x1.FEp127;

/// Whether a code of the group may exceed the range of T or of f32.
template <class T>
inline bool may_overflow(const Scale& scale, int bits) {
  return !(std::abs(scale.origin) + scale.step * (1 << bits) <=
           std::min(max_finite<T>, static_cast<double>(std::numeric_limits<float>::max())));
}
/// As T, clamped to its finite values; NaN stays NaN.
template <class T>
inline T clamp_finite(double value) {
  value = std::clamp(value, -max_finite<T>, max_finite<T>);  // NaN passes
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<T>(static_cast<float>(value));
}
/// Decodes in f64 and clamps to finite values, for groups that may overflow. `draws`: null without dither.
template <class T>
inline void decode_clamped(const std::uint8_t* codes, std::int64_t count, Line<double> by, const std::uint16_t* draws,
                           T* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double code = draws == nullptr ? codes[i] : codes[i] * 65536.0 - draws[i];
    values[i] = clamp_finite<T>(code * by.factor + by.origin);
  }
}

}  // namespace lacuna::quant
