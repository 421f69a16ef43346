// The loops of the affine codec: the range of values, the draws of stochastic rounding, codes of values and values of
// codes.
#pragma once

#include "core/dtype.h"
#include "core/vector.h"
#include "ops/quantize/affine.h"
#include "ops/quantize/fitting.h"
#include "ops/quantize/lanes.h"
#include "ops/quantize/planes.h"

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
  [[gnu::always_inline]] inline const std::array<std::uint16_t, block>& of_block(std::int64_t index) {
    if (stochastic_) draw(static_cast<std::uint64_t>(index) * hashed);
    return draws_;
  }

 private:
  static constexpr std::size_t sets = 4, hashed = block / 2 / sets;
  static_assert(hashed > 2 * (sets - 1), "pairs as far apart as half of them come twice");
  static_assert(hashed % lanes == 0);
  static constexpr std::size_t vectors = hashed / lanes;
  static constexpr auto each = std::make_index_sequence<lanes>();
  using Words = Lanes<std::uint32_t>;

  template <std::size_t... i>
  static constexpr Words counted(std::index_sequence<i...>) {
    return Words{static_cast<std::uint32_t>(i)...};
  }
  /// Words `by`, `by` + 1, ... of two vectors, one behind the other.
  template <std::size_t by, std::size_t... i>
  static Words behind(const Words& a, const Words& b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, (i + by)...);
  }

  /// Once in 2^32 pairs: not in line with what every block does.
  [[gnu::noinline]] void mix(std::uint64_t high) {
    high_ = high;
    mixed_ = scrambled(key_ + high);
  }
  [[gnu::always_inline]] inline void draw(std::uint64_t first) {
    if (first >> 32 != high_) mix(first >> 32);
    Words x[vectors];
    for (std::size_t i = 0; i < vectors; ++i)
      x[i] = scrambled(counted(each) + static_cast<std::uint32_t>(first + i * lanes), mixed_);
    write_hashed(x);
    write_sums<1>(x);
    write_sums<2>(x);
    write_sums<3>(x);
  }
  void write_hashed(const Words* x) {
    for (std::size_t i = 0; i < vectors; ++i) write(x[i], i * lanes);
  }
  /// Of each word and the one `set` behind it, the first following the last.
  template <std::size_t set>
  void write_sums(const Words* x) {
    static_assert(set < sets && set < lanes);
    for (std::size_t i = 0; i < vectors; ++i)
      write(x[i] ^ behind<set>(x[i], x[(i + 1) % vectors], each), set * hashed + i * lanes);
  }
  /// Words of draws from `place` on. Several vectors copied as one would have to lie in memory.
  void write(const Words& words, std::size_t place) { std::memcpy(draws_.data() + 2 * place, &words, sizeof words); }

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

/// Bits of a value as a number in the order of the values. Its own inverse.
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

/// The range of values, and whether all are finite.
struct Found {
  Range range;
  bool finite = true;
};

template <class T>
inline Found found_between(Key<T> least, Key<T> most) {
  const float low = to_coded(std::bit_cast<T>(ordered(least))), high = to_coded(std::bit_cast<T>(ordered(most)));
  return {{low, high}, std::isfinite(low) && std::isfinite(high)};
}

/// The least and the greatest of values that come in pieces, by lanes of a vector until they are asked for.
///
/// Taken for whole numbers, the bits of positive values are in the values' order, those of negative ones below them and
/// in the opposite order; without a sign, above them. With AVX2 three instructions a vector find what decides (but for
/// f64), where keys take five.
///
/// A cache line or more of its own: threads write to neighbours.
template <class T>
class alignas(64) Extremes {
 public:
  void add(const T* values, std::int64_t count) {
    const std::int64_t whole = count / at_once;
    Bits least = least_, most = most_;  // copies: for all that the compiler knows the values lie in this object
    Unsigned most_unsigned = most_unsigned_;
#pragma GCC unroll 4  // what counts the rounds is a third of such a short one
    for (std::int64_t i = 0; i < whole; ++i) {
      Bits bits;
      std::memcpy(&bits, values + i * at_once, sizeof bits);
      const auto without_sign = std::bit_cast<Unsigned>(bits);
      least = bits < least ? bits : least;
      most = bits > most ? bits : most;
      most_unsigned = without_sign > most_unsigned ? without_sign : most_unsigned;
    }
    least_ = least;
    most_ = most;
    most_unsigned_ = most_unsigned;
    for (std::int64_t i = whole * at_once; i < count; ++i) {
      const Key<T> key = key_of(values[i]);
      rest_least_ = key < rest_least_ ? key : rest_least_;
      rest_most_ = key > rest_most_ ? key : rest_most_;
    }
  }
  void add(Key<T> least_key, Key<T> most_key) {
    rest_least_ = std::min(rest_least_, least_key);
    rest_most_ = std::max(rest_most_, most_key);
  }
  void add(const Extremes& other) { add(other.least(), other.most()); }
  /// Keys. Of no values: the greatest key that there is.
  Key<T> least() const {
    const auto negative = std::bit_cast<Bits>(most_unsigned_);  // the least value, where any is negative
    const Bits keys = negative < 0 ? keys_of(negative) : least_;
    const Bits all = folded<at_once / 2>(keys, [](Bits a, Bits b) { return a < b ? a : b; });
    return std::min<Key<T>>(all[0], rest_least_);
  }
  /// Of no values: the least key.
  Key<T> most() const {
    const Bits keys = most_ < 0 ? keys_of(least_ | limits::min()) : most_;  // none is positive
    const Bits all = folded<at_once / 2>(keys, [](Bits a, Bits b) { return a > b ? a : b; });
    return std::max<Key<T>>(all[0], rest_most_);
  }
  Found found() const { return found_between<T>(least(), most()); }

 private:
  using limits = std::numeric_limits<Key<T>>;
  static constexpr int at_once = vector_bytes / sizeof(T);
  typedef Key<T> Bits __attribute__((vector_size(vector_bytes)));
  typedef std::make_unsigned_t<Key<T>> Unsigned __attribute__((vector_size(vector_bytes)));

  static Bits keys_of(Bits bits) { return bits ^ ((bits >> limits::digits) & limits::max()); }
  /// Every lane: what `choose` makes of all.
  template <std::size_t half, class F>
  static Bits folded(Bits of, const F& choose) {
    of = choose(of, exchanged<half>(of));
    if constexpr (half > 1) return folded<half / 2>(of, choose);
    return of;
  }

  Bits least_ = Bits{} + limits::max(), most_ = Bits{} + limits::min();
  Unsigned most_unsigned_{};
  Key<T> rest_least_ = limits::max(), rest_most_ = limits::min();
};

/// Of one value or more.
template <class T>
inline Found range_of(const T* values, std::int64_t count) {
  Extremes<T> extremes;
  extremes.add(values, count);
  return extremes.found();
}

/// A constant that the compiler does not see: holding values to a known one takes a comparison and a choice, to an
/// unknown one a single instruction (GCC 12).
template <class C>
inline C unseen(C constant) {
#ifdef __x86_64__
  __asm__("" : "+v"(constant));
#endif
  return constant;
}

/// `values` [lanes], as to_coded makes them.
template <class C, class T>
[[gnu::always_inline]] inline Lanes<C> load_coded(const T* values) {
  if constexpr (std::is_same_v<T, double>) {
    float coded[lanes];
    for (std::int64_t i = 0; i < lanes; ++i) coded[i] = to_coded(values[i]);
    return load_as<C>(coded);
  } else {
    return load_as<C>(values);
  }
}

/// (value - origin) · factor in 2^-16 steps, held to what there are codes for. V: C, or lanes of it, as By may be.
template <class C, class V, class By>
[[gnu::always_inline]] inline V steps_of(V value, By origin, By factor, V bottom, V top) {
  V v = (value - origin) * factor + C(0.5);
  v = v > bottom ? v : bottom;  // NaN too
  return v < top ? v : top;
}

/// The line of every element of a piece.
template <class C>
struct SameLine {
  Line<C> line;
  C origin(std::int64_t) const { return line.origin; }
  C factor(std::int64_t) const { return line.factor; }
  C origins(std::int64_t) const { return line.origin; }
  C factors(std::int64_t) const { return line.factor; }
  SameLine rest(std::int64_t) const { return *this; }
};

/// A line for each.
struct OwnLines {
  const float *origin_of, *factor_of;  // [count]
  float origin(std::int64_t i) const { return origin_of[i]; }
  float factor(std::int64_t i) const { return factor_of[i]; }
  /// Of a vector of them.
  Lanes<float> origins(std::int64_t i) const { return load(origin_of + i); }
  Lanes<float> factors(std::int64_t i) const { return load(factor_of + i); }
  OwnLines rest(std::int64_t i) const { return {origin_of + i, factor_of + i}; }
};

/// code = (value - origin) · factor in 2^-16 steps plus the draw, cut off; saturating. The sum is one of whole numbers,
/// so that no rounding of it favours a side. C: float, or double where floats do not do. Lines:
/// SameLine<C>, or OwnLines where C is float.
template <class C, class Lines>
class Encoder {
 public:
  Encoder(Lines lines, int bits)
      : lines_(lines), bottom_(unseen(C(0.5))), top_(unseen(static_cast<C>(((1 << bits) - 1) << 16))) {}

  /// All: [count].
  template <class T>
  [[gnu::always_inline]] inline void operator()(const T* values, std::int64_t count, const std::uint16_t* draws,
                                                std::uint8_t* codes) const {
    const auto sum = [&](std::int64_t i) __attribute__((always_inline)) {
      const auto steps = steps_of<C>(load_coded<C>(values + i), lines_.origins(i), lines_.factors(i),
                                     Lanes<C>{} + bottom_, Lanes<C>{} + top_);
      return converted<std::int32_t>(steps) + load_as<std::int32_t>(draws + i);
    };
    std::int64_t i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
      const Lanes<std::int32_t> sums[4] = {sum(i), sum(i + lanes), sum(i + 2 * lanes), sum(i + 3 * lanes)};
      store_third_bytes(sums, codes + i);
    }
    for (; i + lanes <= count; i += lanes) store<std::uint8_t>(cut<std::uint8_t, 16>(sum(i)), codes + i);
    if (i < count) code_tail(values + i, count - i, lines_.rest(i), draws + i, codes + i);
  }

 private:
  /// Fewer than a vector. In line it would take registers from the loop over vectors.
  template <class T>
  [[gnu::noinline]] void code_tail(const T* values, std::int64_t count, Lines lines, const std::uint16_t* draws,
                                   std::uint8_t* codes) const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const C steps = steps_of<C>(static_cast<C>(to_coded(values[i])), lines.origin(i), lines.factor(i), bottom_, top_);
      codes[i] = static_cast<std::uint8_t>((static_cast<std::int32_t>(steps) + draws[i]) >> 16);
    }
  }

  Lines lines_;
  C bottom_, top_;
};

/// A line by 2^-16 steps for codes less what was drawn: of a draw with its mean added, which is half a step less half
/// of its own unit.
template <class C>
inline Line<C> dithered(Line<double> by) {
  const double factor = by.factor / 65536;
  return {static_cast<C>(by.origin + 32767.5 * factor), static_cast<C>(factor)};
}

/// value = code · step + origin: numbers all. With draws (2^16 code - draw) · factor + origin, the lines being as
/// `dithered` makes them.
template <bool drawn, class Lines>
class Decoder {
 public:
  explicit Decoder(Lines lines) : lines_(lines) {}

  /// All: [count]; `draws`: null without.
  template <class T>
  [[gnu::always_inline]] inline void operator()(const std::uint8_t* codes, std::int64_t count,
                                                const std::uint16_t* draws, T* values) const {
    std::int64_t i = 0;
#pragma GCC unroll 4  // as above
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
  /// Fewer than a vector.
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

/// Calls `f` with `count`: as a constant where it is a usual one, which makes a better loop of an `f` that is in line.
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
inline constexpr double most_finite = static_cast<double>(std::numeric_limits<T>::max());
template <>
inline constexpr double most_finite<bf16> = 0x1.FEp127;

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

}  // namespace lacuna::quant
