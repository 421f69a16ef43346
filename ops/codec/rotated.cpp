// Codes of few bits of values turned at random.
//
// A group of values, less its mean, is turned: its signs are drawn and Walsh and Hadamard's matrix mixes it, so that
// whatever it was, its values now lie like a normal distribution's, of a width that its norm tells. For that the steps
// that err least are known (Max 1960): at two bits half the range between the extremes, so that a few values saturate.
// What this takes off in the mean the scale gives back: it is chosen so that the product of what is decoded with the
// group is the group's own square, which makes the error orthogonal to the group and, the turn being drawn, leaves no
// mean (Vargaftik et al., "DRIVE", NeurIPS 2021, and "EDEN", ICML 2022).
#include "ops/codec/rotated.h"

#include "core/parallel.h"
#include "ops/codec/affine_kernels.h"

#include <numeric>
#include <vector>

namespace lacuna::codec {
namespace {

constexpr std::int64_t serial_below = 16384;  // elements
constexpr std::int64_t lanes = 16;
/// Of a sample, that one mean may stand for: it then takes a quarter of a bit an element. So many are also enough to
/// find it: what is left varies by a 32nd more than about the mean of all.
constexpr std::int64_t fewest_positions = 32;

template <class C>
struct LanesOf {
  typedef C type __attribute__((vector_size(lanes * sizeof(C))));
};
template <class C>
using Lanes = typename LanesOf<C>::type;

template <class C>
Lanes<C> load(const C* from) {
  Lanes<C> all;
  std::memcpy(&all, from, sizeof all);
  return all;
}
template <class C>
void store(const Lanes<C>& all, C* to) {
  std::memcpy(to, &all, sizeof all);
}

template <std::size_t by, class C, std::size_t... i>
Lanes<C> butterfly(const Lanes<C>& all, std::index_sequence<i...>) {
  const Lanes<C> signs = {((i & by) != 0 ? C{-1} : C{1})...};
  return __builtin_shufflevector(all, all, (i ^ by)...) + all * signs;
}
/// Sums and differences of lanes `by` apart.
template <std::size_t by, class C>
Lanes<C> butterfly(const Lanes<C>& all) {
  return butterfly<by, C>(all, std::make_index_sequence<lanes>());
}

/// Sums and differences of all, by `factor`: `count` vectors, in registers.
template <int count, class C>
void walsh_hadamard(C* values, C factor) {
  Lanes<C> all[count];
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    Lanes<C> one = load(values + i * lanes) * factor;
    one = butterfly<1, C>(one);
    one = butterfly<2, C>(one);
    one = butterfly<4, C>(one);
    all[i] = butterfly<8, C>(one);
  }
#pragma GCC unroll 4
  for (int by = 1; by < count; by *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) {
      if ((i & by) != 0) continue;
      const Lanes<C> sum = all[i] + all[i + by];
      all[i + by] = all[i] - all[i + by];
      all[i] = sum;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) store(all[i], values + i * lanes);
}

/// Of 2^k values.
template <class C>
void walsh_hadamard(C* values, std::int64_t count, C factor) {
  switch (count) {
    case lanes:
      return walsh_hadamard<1>(values, factor);
    case 2 * lanes:
      return walsh_hadamard<2>(values, factor);
    case 4 * lanes:
      return walsh_hadamard<4>(values, factor);
    case 8 * lanes:
      return walsh_hadamard<8>(values, factor);
    case 16 * lanes:
      return walsh_hadamard<16>(values, factor);
    default:
      break;
  }
  if (count == 1) {
    values[0] *= factor;
    return;
  }
  const std::int64_t half = count / 2;
  walsh_hadamard(values, half, factor);
  walsh_hadamard(values + half, half, factor);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < half; ++i) {
    const C other = values[half + i];
    values[half + i] = values[i] - other;
    values[i] += other;
  }
}

/// Of three parts of `part` values: less two thirds of their sum, which is an orthogonal matrix (a reflection).
template <class C>
void reflect_three(C* values, std::int64_t part) {
  C* const second = values + part;
  C* const third = second + part;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < part; ++i) {
    const C most = (values[i] + second[i] + third[i]) * static_cast<C>(2.0 / 3);
    values[i] = most - values[i];
    second[i] = most - second[i];
    third[i] = most - third[i];
  }
}

template <class C>
void hadamard_transform(C* values, std::int64_t count) {
  while (count > 0) {
    const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count)));
    const bool three = power > 1 && power / 2 * 3 <= count;
    const std::int64_t part = three ? power / 2 : power, length = three ? 3 * part : part;
    const C factor = static_cast<C>(1 / std::sqrt(static_cast<double>(part)));
    for (std::int64_t at = 0; at < length; at += part) walsh_hadamard(values + at, part, factor);
    if (three) reflect_three(values, part);
    values += length;
    count -= length;
  }
}

/// The signs of a group, one bit an element.
class Signs {
 public:
  Signs(std::uint64_t key, std::int64_t group, std::int64_t count) {
    const std::uint64_t first = static_cast<std::uint64_t>(group) * words;
    const std::uint64_t mixed = scrambled(scrambled(key) + (first >> 32));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count + 31) / 32; i += together) {
      const Some counters = Some{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<std::uint32_t>(first + i);
      const Some some = scrambled(counters, mixed);
      std::memcpy(words_.data() + i, &some, sizeof some);
    }
  }

  /// `values`, the group's from `i` on, with their signs; i in whole vectors.
  template <class C>
  Lanes<C> applied(const Lanes<C>& values, std::int64_t i) const {
    using Whole = std::conditional_t<std::is_same_v<C, float>, std::uint32_t, std::uint64_t>;
    constexpr int top = 8 * sizeof(C) - 1;
    constexpr Lanes<Whole> up = {top,     top - 1, top - 2,  top - 3,  top - 4,  top - 5,  top - 6,  top - 7,
                                 top - 8, top - 9, top - 10, top - 11, top - 12, top - 13, top - 14, top - 15};
    const Whole word = words_[static_cast<std::size_t>(i / 32)] >> (i % 32);
    return std::bit_cast<Lanes<C>>(std::bit_cast<Lanes<Whole>>(values) ^
                                   (((Lanes<Whole>{} + word) << up) & (Whole{1} << top)));
  }

 private:
  static constexpr std::size_t words = longest_rotated_group / 32, together = 8;
  typedef std::uint32_t Some __attribute__((vector_size(4 * together)));
  std::array<std::uint32_t, words> words_;
};

/// Two sums, of all lanes of the pairs f(0), f(lanes), ..., below `count`: four at a time, which do not wait for each
/// other.
template <class C, class F>
std::pair<C, C> sums_of(std::int64_t count, const F& f) {
  Lanes<C> left[4] = {}, right[4] = {};
  const auto add = [&](int part, std::int64_t i) {
    const auto [first, second] = f(i);
    left[part] += first;
    right[part] += second;
  };
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) add(part, i + part * lanes);
  }
  for (; i < count; i += lanes) add(0, i);
  const auto folded = [](const Lanes<C>* sums) {
    Lanes<C> sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    sum += shifted<8>(sum);
    sum += shifted<4>(sum);
    sum += shifted<2>(sum);
    sum += shifted<1>(sum);
    return sum[0];
  };
  return {folded(left), folded(right)};
}

/// Of a standard normal distribution: the step of the uniform quantizer that errs least, and that error squared (Max,
/// "Quantizing for minimum distortion", 1960, table II).
struct MaxQuantizer {
  double step, distortion;
};
constexpr std::array<MaxQuantizer, most_rotated_bits + 1> max_quantizers{
    {{}, {1.5958, 0.3634}, {0.9957, 0.1188}, {0.5860, 0.03744}}};

/// What is kept of a group: it decodes to the turn of (code - (2^bits - 1) / 2) · step, plus the mean, plus those of
/// the channels where the step has no minus sign.
struct Kept {
  bf16 step, mean;
};
static_assert(sizeof(Kept) == stored_bytes);

bf16 nearest(double value) {
  return bf16(static_cast<float>(std::clamp(value, -most_finite<bf16>, most_finite<bf16>)));
}

/// Where the parts lie: blocks of codes as they come, whatever the groups, then 4 bytes a group.
struct Places {
  explicit Places(const Codes& coded)
      : bits(coded.coding.bits),
        count(coded.shape.count()),
        size(coded.coding.grouping.size),
        codes(reinterpret_cast<std::uint8_t*>(coded.bytes.raw())),
        kept(codes + packed_row_bytes(count, bits)) {}
  std::int64_t length(std::int64_t group) const { return std::min(size, count - group * size); }
  std::uint8_t* block_at(std::int64_t element) const { return codes + element / block * packed_bytes(block, bits); }
  std::int64_t in_block(std::int64_t element) const { return std::min(block, count - element / block * block); }
  Kept group(std::int64_t index) const {
    Kept group;
    std::memcpy(&group, kept + index * stored_bytes, sizeof group);
    return group;
  }

  int bits;
  std::int64_t count, size;  // elements, of a group
  std::uint8_t* codes;       // [packed_row_bytes]
  std::uint8_t* kept;        // [groups, 4], at any address
};

/// What is taken off the values, if anything is.
struct Means {
  /// `of`: of the samples from the one on that holds element `begin`.
  Means(const Codes& codes, const Tensor& of, std::int64_t begin)
      : columns(codes.shape.back()),
        sample(codes.shape.count() / codes.shape.front()),
        first(begin / sample),
        values(of.count() == 0 ? nullptr : of.data<float>()),
        most(values == nullptr ? 0 : largest(of)) {}

  bool any() const { return values != nullptr; }
  /// Calls `f(offset, means, length)` for the pieces of `count` elements from `at` on that lie in one row each.
  template <class F>
  void for_pieces(std::int64_t at, std::int64_t count, const F& f) const {
    for (std::int64_t i = at; i < at + count;) {
      const std::int64_t column = i % columns, length = std::min(columns - column, at + count - i);
      f(i - at, values + (i / sample - first) * columns + column, length);
      i += length;
    }
  }

  std::int64_t columns, sample;  // elements of a row, of a sample
  std::int64_t first;            // sample
  const float* values;           // [samples from there on, columns], or null
  double most;                   // of their magnitudes

 private:
  static double largest(const Tensor& of) {
    const float* const all = of.data<float>();
    float most = 0;
#pragma omp simd reduction(max : most)
    for (std::int64_t i = 0; i < of.count(); ++i) most = std::max(most, std::abs(all[i]));
    return static_cast<double>(most);
  }
};

/// A group's values, and what fills the last vector.
template <class C>
using Room = std::array<C, longest_rotated_group>;
typedef std::uint8_t Bytes __attribute__((vector_size(lanes)));

constexpr std::int64_t whole_vectors(std::int64_t count) { return (count + lanes - 1) / lanes * lanes; }

template <class C>
struct Moments {
  C mean, variance;
};
/// Of a group's `values` [count, and what fills the last vector, which is overwritten].
template <class C>
Moments<C> moments_of(C* values, std::int64_t count) {
  const C some = values[0], size = static_cast<C>(count);  // about which squares lose no digits
  const std::int64_t whole = whole_vectors(count);
  std::fill(values + count, values + whole, some);
  const auto [sum, squares] = sums_of<C>(whole, [&](std::int64_t i) {
    const Lanes<C> value = load(values + i) - some;
    return std::pair(value, value * value);
  });
  const C mean = sum / size;
  return {some + mean, std::max(squares / size - mean * mean, C{0})};
}

/// The variance of every fourth run of 16 of `x` [count], about the first value.
template <class C, class T>
C sampled_variance(const T* x, std::int64_t count) {
  const C some = static_cast<C>(to_coded(x[0]));
  C sum = 0, squares = 0, number = 0;
  for (std::int64_t i = 0; i < count; i += 4 * lanes) {
    const std::int64_t end = std::min(count, i + lanes);
    number += static_cast<C>(end - i);
#pragma omp simd reduction(+ : sum, squares)
    for (std::int64_t j = i; j < end; ++j) {
      const C value = static_cast<C>(to_coded(x[j])) - some;
      sum += value;
      squares += value * value;
    }
  }
  return squares / number - (sum / number) * (sum / number);
}

/// Codes a group of `count` values, from `at` on, that floats can square, or with doubles any finite ones; false if
/// they cannot. `codes` [count, and up to `lanes` - 1 more].
template <class C, class T>
bool code_group(const T* x, std::int64_t at, std::int64_t count, int bits, const Means& means, const Signs& signs,
                std::uint8_t* codes, Kept& kept) {
  alignas(64) Room<C> room;
  C* const values = room.data();
  const std::int64_t whole = whole_vectors(count);
  const auto take = [&] {
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<C>(to_coded(x[at + i]));
  };
  bool centred = means.any();
  if (centred)
    means.for_pieces(at, count, [&](std::int64_t offset, const float* mean, std::int64_t length) {
      const T* const from = x + at + offset;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < length; ++i)
        values[offset + i] = static_cast<C>(to_coded(from[i])) - static_cast<C>(mean[i]);
    });
  else
    take();
  Moments<C> moments = moments_of(values, count);
  // A class token is unlike the tokens whose mean it would be held by: a quarter of the values tells.
  if (centred && !(moments.variance < sampled_variance<C>(x + at, count))) {
    centred = false;
    take();
    moments = moments_of(values, count);
  }
  kept.mean = nearest(static_cast<double>(moments.mean));
  const C mean = static_cast<C>(static_cast<float>(kept.mean)), off = moments.mean - mean;
  const C width = std::sqrt(moments.variance + off * off);
  if (std::is_same_v<C, float> && !(width > C(0x1p-50) && width < C(0x1p60))) return false;
  if (width == 0) {
    std::fill_n(codes, count, std::uint8_t{0});
    kept.step = bf16(centred ? 0.0F : -0.0F);
    return true;
  }
  std::fill(values + count, values + whole, mean);
  for (std::int64_t i = 0; i < whole; i += lanes) store<C>(signs.applied<C>(load(values + i) - mean, i), values + i);
  hadamard_transform(values, count);
  const C factor = static_cast<C>(1 / max_quantizers[static_cast<std::size_t>(bits)].step) / width;
  const C half = static_cast<C>(1 << (bits - 1)), top = static_cast<C>((1 << bits) - 1);
  const auto [square, product] = sums_of<C>(whole, [&](std::int64_t i) {
    const Lanes<C> value = load(values + i);
    Lanes<C> place = value * factor + half;
    place = place > 0 ? place : Lanes<C>{};
    place = place < top ? place : Lanes<C>{} + top;
    const auto code = __builtin_convertvector(place, Lanes<std::int32_t>);
    const Bytes bytes = __builtin_convertvector(code, Bytes);
    std::memcpy(codes + i, &bytes, sizeof bytes);
    return std::pair(value * value, value * (__builtin_convertvector(code, Lanes<C>) - (half - C(0.5))));
  });
  const double step = static_cast<double>(square) / static_cast<double>(product);
  kept.step = nearest(centred ? step : -step);
  return std::isfinite(square);
}

template <class T>
void encode_groups(const T* x, const Codes& coded, const Means& means) {
  const Places to(coded);
  // Whole groups and whole blocks.
  const std::int64_t unit = std::lcm(to.size, block);
  const std::int64_t units = (to.count + unit - 1) / unit;
  parallel_for(units, std::max<std::int64_t>(serial_below / unit, 1), [&](std::int64_t first, std::int64_t last) {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(unit + lanes));
    for (std::int64_t i = first * unit; i < std::min(last * unit, to.count); i += unit) {
      const std::int64_t end = std::min(i + unit, to.count);
      for (std::int64_t at = i; at < end; at += to.size) {
        const std::int64_t group = at / to.size, count = to.length(group);
        const Signs signs(coded.key, group, count);
        std::uint8_t* const here = codes.data() + (at - i);
        Kept kept;
        if (!code_group<float>(x, at, count, to.bits, means, signs, here, kept) &&
            !code_group<double>(x, at, count, to.bits, means, signs, here, kept)) {
          std::fill_n(here, count, std::uint8_t{0});
          kept.step = kept.mean = bf16(std::numeric_limits<float>::quiet_NaN());
        }
        std::memcpy(to.kept + group * stored_bytes, &kept, sizeof kept);
      }
      std::fill(codes.begin() + (end - i), codes.end(), std::uint8_t{0});
      for (std::int64_t at = i; at < end; at += block)
        pack(codes.data() + (at - i), to.in_block(at), to.bits, to.block_at(at));
    }
  });
}

/// A group from its codes, `count` from `at` on, in the precision of C: `write(values, i)` gets those from i on, a
/// vector at a time, of which the last may go beyond `count`.
template <class C, class F>
void decode_group(const std::uint8_t* codes, std::int64_t at, std::int64_t count, int bits, const Means& means,
                  const Signs& signs, Kept kept, const F& write) {
  alignas(64) Room<C> room;
  C* const values = room.data();
  const C step = static_cast<C>(std::abs(static_cast<float>(kept.step))),
          mean = static_cast<C>(static_cast<float>(kept.mean));
  const bool centred = means.any() && !std::signbit(static_cast<float>(kept.step));
  const C middle = static_cast<C>((1 << bits) - 1) / 2;
  std::fill(values + count, values + whole_vectors(count), C{0});
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) values[i] = (static_cast<C>(codes[i]) - middle) * step;
  hadamard_transform(values, count);
  if (!centred) {
    for (std::int64_t i = 0; i < count; i += lanes) write(signs.applied<C>(load(values + i), i) + mean, i);
    return;
  }
  for (std::int64_t i = 0; i < count; i += lanes) store<C>(signs.applied<C>(load(values + i), i) + mean, values + i);
  means.for_pieces(at, count, [&](std::int64_t offset, const float* off, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) values[offset + i] += static_cast<C>(off[i]);
  });
  for (std::int64_t i = 0; i < count; i += lanes) write(load(values + i), i);
}

template <class T>
void decode_groups(const Codes& coded, std::int64_t begin, std::int64_t end, const Means& means, T* out) {
  const Places from(coded);
  const std::int64_t first_group = begin / from.size, groups = (end - 1) / from.size + 1 - first_group;
  const auto decode_share = [&](std::int64_t share_begin, std::int64_t share_end) {
    alignas(64) std::array<std::uint8_t, longest_rotated_group + 2 * block> codes;
    std::array<T, longest_rotated_group> room;
    for (std::int64_t group = first_group + share_begin; group < first_group + share_end; ++group) {
      const std::int64_t at = group * from.size, count = from.length(group), start = at / block * block;
      for (std::int64_t i = start; i < at + count; i += block)
        unpack(from.block_at(i), from.in_block(i), from.bits, codes.data() + (i - start));
      const std::uint8_t* const own = codes.data() + (at - start);
      const Kept kept = from.group(group);
      const Signs signs(coded.key, group, count);
      const std::int64_t low = std::max(begin, at), high = std::min(end, at + count);
      T* const to = low == at && high == at + whole_vectors(count) ? out + (at - begin) : room.data();
      // No decoded value is further from the mean than the norm of the levels.
      const double reach = means.most + std::abs(static_cast<double>(static_cast<float>(kept.mean))) +
                           std::abs(static_cast<double>(static_cast<float>(kept.step))) * (1 << from.bits) *
                               std::sqrt(static_cast<double>(count));
      if (reach <= std::min(most_finite<T>, 0x1p126))
        decode_group<float>(own, at, count, from.bits, means, signs, kept,
                            [&](const Lanes<float>& values, std::int64_t i) {
                              for (std::int64_t lane = 0; lane < lanes; ++lane)
                                to[i + lane] = to_number<T>(values[lane]);
                            });
      else
        decode_group<double>(own, at, count, from.bits, means, signs, kept,
                             [&](const Lanes<double>& values, std::int64_t i) {
                               for (std::int64_t lane = 0; lane < lanes; ++lane) to[i + lane] = held<T>(values[lane]);
                             });
      if (to == room.data()) std::copy(to + (low - at), to + (high - at), out + (low - begin));
    }
  };
  parallel_for(groups, std::max<std::int64_t>(serial_below / from.size, 1), decode_share);
}

}  // namespace

double rotated_error(int bits) {
  const double distortion = max_quantizers[static_cast<std::size_t>(bits)].distortion;
  return distortion / (1 - distortion);
}

void hadamard_transform(std::span<float> values) {
  hadamard_transform(values.data(), static_cast<std::int64_t>(values.size()));
}

Shape means_shape(const Shape& shape, const Coding& coding) {
  if (coding.rounding != Rounding::rotated || shape.rank() < 3 || shape.count() == 0 ||
      shape.count() / shape.front() / shape.back() < fewest_positions)
    return {0, shape.back()};
  return {shape.front(), shape.back()};
}

void find_means(const Tensor& x, const Tensor& means) {
  const std::int64_t samples = means.shape().front(), columns = means.shape().back(),
                     positions = x.count() / samples / columns, stretch = positions / fewest_positions,
                     stretches = positions / stretch;
  // One position of each stretch, by chance: any fixed distance meets some image's width.
  std::vector<std::int64_t> offsets;  // [stretches]
  for (std::int64_t i = 0; i < stretches; ++i) {
    const std::uint64_t drawn = scrambled(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(stretch);
    offsets.push_back((i * stretch + static_cast<std::int64_t>(drawn)) * columns);
  }
  float* const out = means.data<float>();
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    const T* const in = x.data<T>();
    constexpr std::int64_t together = 256;  // columns whose sums stay in the first cache
    const std::int64_t parts = (columns + together - 1) / together;
    parallel_tasks(samples * parts, [&](std::int64_t task, std::int64_t) {
      const std::int64_t sample = task / parts, begin = task % parts * together,
                         count = std::min(together, columns - begin);
      float* const sums = out + sample * columns + begin;  // [count]
      std::fill_n(sums, count, 0.0F);
      for (const std::int64_t offset : offsets) {
        const T* const row = in + sample * positions * columns + begin + offset;
#pragma GCC ivdep
        for (std::int64_t column = 0; column < count; ++column) sums[column] += to_coded(row[column]);
      }
      const float part = 1 / static_cast<float>(stretches);
      for (std::int64_t column = 0; column < count; ++column)
        sums[column] = std::isfinite(sums[column]) ? sums[column] * part : 0;
    });
  });
}

void encode_rotated(const Tensor& x, const Codes& codes, const Tensor& means) {
  with_float_type(x.dtype(), [&]<class T>(Type<T>) { encode_groups(x.data<T>(), codes, Means(codes, means, 0)); });
}

void decode_rotated(const Codes& codes, std::int64_t begin, std::int64_t end, const Tensor& out, const Tensor& means) {
  const std::int64_t size = codes.coding.grouping.size;
  with_float_type(out.dtype(), [&]<class T>(Type<T>) {
    decode_groups(codes, begin, end, Means(codes, means, begin / size * size), out.data<T>());
  });
}

void add_rotated_variance(const Codes& codes, std::int64_t begin, std::int64_t end, const Tensor& out) {
  const Places from(codes);
  const auto [step, distortion] = max_quantizers[static_cast<std::size_t>(from.bits)];
  // A width of 1 is held with a step of `step` / (1 - distortion) and has an error of distortion / (1 - distortion).
  const double of_a_step = distortion * (1 - distortion) / (step * step);
  float* const variance = out.data<float>();
  parallel_for(end - begin, serial_below, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = begin + first; i < begin + last;) {
      const std::int64_t group = i / from.size, next = std::min(begin + last, (group + 1) * from.size);
      const auto width = static_cast<double>(static_cast<float>(from.group(group).step));
      const double own = std::min(width * width * of_a_step, static_cast<double>(std::numeric_limits<float>::max()));
      if (std::isfinite(width))
        for (std::int64_t j = i; j < next; ++j) variance[j - begin] += static_cast<float>(own);
      i = next;
    }
  });
}

}  // namespace lacuna::codec
