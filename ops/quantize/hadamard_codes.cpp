// QuantizedTensor of few bits of values turned at random.
//
// A group of values, less its mean, is turned: its signs are drawn and Walsh and Hadamard's matrix mixes it, so that
// whatever it was, its values now lie like a normal distribution's, of a width that its norm tells. For that the steps
// that err least are known (Max 1960): at two bits half the range between the extremes, so that a few values saturate.
// What this takes off in the mean the scale gives back: it is chosen so that the product of what is decoded with the
// group is the group's own square, which makes the error orthogonal to the group and, the turn being drawn, leaves no
// mean (Vargaftik et al., "DRIVE", NeurIPS 2021, and "EDEN", ICML 2022).
#include "ops/quantize/hadamard_codes.h"

#include "core/parallel.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/hadamard.h"
#include "ops/quantize/layout.h"

#include <memory>
#include <span>
#include <vector>

namespace lacuna::quant {
namespace {

/// Of a sample, that one mean may stand for: it then takes a quarter of a bit an element. So many are also enough to
/// find it: what is left varies by a 32nd more than about the mean of all.
constexpr std::int64_t fewest_positions = 32;

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
    const Whole word = words_[static_cast<std::size_t>(i) / 32] >> (i % 32);
    return std::bit_cast<Lanes<C>>(
        std::bit_cast<Lanes<Whole>>(values) ^
        (((Lanes<Whole>{} + word) << down_from<Whole>(top, std::make_index_sequence<lanes>())) & (Whole{1} << top)));
  }

 private:
  template <class Whole, std::size_t... i>
  static constexpr Lanes<Whole> down_from(int most, std::index_sequence<i...>) {
    return Lanes<Whole>{static_cast<Whole>(most - static_cast<int>(i))...};
  }

  static constexpr std::size_t words = max_hadamard_group / 32, together = 8;
  typedef std::uint32_t Some __attribute__((vector_size(4 * together)));
  std::array<std::uint32_t, words> words_;
};

/// Every lane: the sum of all.
template <std::size_t half, class Vector>
Vector all_lanes(Vector sum) {
  sum += exchanged<half>(sum);
  if constexpr (half > 1) return all_lanes<half / 2>(sum);
  return sum;
}
/// The sum of all lanes of four vectors.
template <class C>
C folded(const Lanes<C>* sums) {
  return all_lanes<lanes / 2>((sums[0] + sums[1]) + (sums[2] + sums[3]))[0];
}

/// Of a standard normal distribution: the step of the uniform quantizer that errs least, and that error squared (Max,
/// "Quantizing for minimum distortion", 1960, table II).
struct MaxQuantizer {
  double step, distortion;
};
constexpr std::array<MaxQuantizer, max_hadamard_bits + 1> max_quantizers{
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

template <class C>
using Room = std::array<C, max_hadamard_group>;

/// What is taken off the values, if anything is.
struct Means {
  /// `of`: of the samples from `first_sample` on.
  Means(const QuantizedTensor& codes, std::span<const float> of, std::int64_t first_sample)
      : columns(codes.shape.back()),
        sample(codes.shape.count() / codes.shape.front()),
        first(first_sample),
        values(of.empty() ? nullptr : of.data()) {}

  std::int64_t columns, sample;  // elements of a row, of a sample
  std::int64_t first;            // sample
  const float* values;           // [samples from there on, columns], or null
};

/// The means of one group after the other, element by element.
class GroupMeans {
 public:
  explicit GroupMeans(const Means& means) : means_(means) {}

  /// Those of `count` elements from `at` on, and more where they fill the last vector [whole_vectors(count)]; null
  /// where there are none. They are valid until the next call.
  const float* of(std::int64_t at, std::int64_t count) {
    if (means_.values == nullptr) return nullptr;
    const std::int64_t begin = offset_of(at), column = at % means_.columns, whole = whole_vectors(count);
    if (count == whole && column + count <= means_.columns) return means_.values + begin + column;
    if (count == whole && means_.columns <= most_repeated && offset_of(at + count - 1) == begin) {
      if (begin != begin_) repeat(begin);
      return repeated_ + column;
    }
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t from = (at + i) % means_.columns, length = std::min(means_.columns - from, count - i);
      std::copy_n(means_.values + offset_of(at + i) + from, length, room_.data() + i);
      i += length;
    }
    std::fill(room_.data() + count, room_.data() + whole, room_[0]);
    return room_.data();
  }
  /// The greatest magnitude of the means of the samples that hold elements [at, at + count); 0 where there are none.
  double largest(std::int64_t at, std::int64_t count) {
    if (means_.values == nullptr) return 0;
    const std::int64_t begin = offset_of(at), end = offset_of(at + count - 1) + means_.columns;
    if (begin != measured_.begin || end != measured_.end) {
      float most = 0;
#pragma omp simd reduction(max : most)
      for (std::int64_t i = begin; i < end; ++i) most = std::max(most, std::abs(means_.values[i]));
      largest_ = static_cast<double>(most);
      measured_ = {begin, end};
    }
    return largest_;
  }

 private:
  // Of longer rows a group needs less than it takes to repeat one.
  static constexpr std::int64_t most_repeated = max_hadamard_group;

  std::int64_t offset_of(std::int64_t element) const {
    return (element / means_.sample - means_.first) * means_.columns;
  }
  void repeat(std::int64_t begin) {
    const auto columns = static_cast<std::size_t>(means_.columns);
    const std::size_t all = columns + max_hadamard_group;
    room_of_repeated_.resize(all + lanes);
    void* first = room_of_repeated_.data();
    std::size_t space = room_of_repeated_.size() * sizeof(float);
    repeated_ = static_cast<float*>(std::align(sizeof(Lanes<float>), all * sizeof(float), first, space));
    for (std::size_t i = 0; i < all; i += columns)
      std::copy_n(means_.values + begin, std::min(columns, all - i), repeated_ + i);
    begin_ = begin;
  }

  alignas(64) Room<float> room_;
  const Means& means_;
  std::vector<float> room_of_repeated_;
  float* repeated_ = nullptr;  // [columns + max_hadamard_group]: a sample's, over and over
  std::int64_t begin_ = -1;    // where that sample's lie
  lacuna::Range measured_{-1, -1};
  double largest_ = 0;  // of those
};

/// A group's values, in whole vectors: as they lie, or copied with the first behind them.
template <class C, class T>
const C* in_vectors(const T* x, std::int64_t count, Room<C>& room) {
  if constexpr (std::is_same_v<C, float> && std::is_same_v<T, float>)
    if (count % lanes == 0) return x;
  for (std::int64_t i = 0; i < count; ++i) room[static_cast<std::size_t>(i)] = static_cast<C>(to_coded(x[i]));
  std::fill(room.data() + count, room.data() + whole_vectors(count), room[0]);
  return room.data();
}

template <class C>
struct Moments {
  C mean, variance;
};
/// Of `count` values that come in whole vectors, `value(0)`, `value(lanes)` and so on, what fills the last being as the
/// first value; about that squares lose no digits.
template <class C, class F>
Moments<C> moments_of(std::int64_t count, const F& value) {
  const C first = value(0)[0], size = static_cast<C>(count);
  Lanes<C> sums[4] = {}, squares[4] = {};
  const auto add = [&](int stream, std::int64_t i) {
    const Lanes<C> off = value(i) - first;
    sums[stream] += off;
    squares[stream] += off * off;
  };
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int stream = 0; stream < 4; ++stream) add(stream, i + stream * lanes);
  }
  for (; i < count; i += lanes) add(0, i);
  const C sum = folded<C>(sums), mean = sum / size;
  return {first + mean, std::max(folded<C>(squares) / size - mean * mean, C{0})};
}

/// Writes the codes of turned values, and sums their product with what the codes stand for, in steps.
template <class C>
class Quantizer {
 public:
  Quantizer(int bits, C width, std::uint8_t* codes)
      : top_(Whole{} + ((1 << bits) - 1)),
        codes_(codes),
        in_steps_(static_cast<C>(1 / max_quantizers[static_cast<std::size_t>(bits)].step) / width),
        half_(static_cast<C>(1 << (bits - 1))) {}

  void operator()(int stream, std::int64_t i, const Lanes<C>& turned) {
    auto code = __builtin_convertvector(turned * in_steps_ + half_, Whole);
    code = code > 0 ? code : Whole{};
    code = code < top_ ? code : top_;
    const auto bytes = cut<std::uint8_t, 0>(code);
    std::memcpy(codes_ + i, &bytes, sizeof bytes);
    products_[stream] += turned * (__builtin_convertvector(code, Lanes<C>) - (half_ - C(0.5)));
  }
  double product() const { return static_cast<double>(folded<C>(products_)); }

 private:
  using Whole = Lanes<std::int32_t>;

  Lanes<C> products_[4] = {};
  Whole top_;
  std::uint8_t* codes_;
  C in_steps_, half_;
};

/// The variance by a quarter of the values where there are many: of each four runs of 16 the one behind the last
/// four's, since others so far apart would be of the same channels in every group.
template <class C, class F>
C sampled_variance(std::int64_t count, const F& value) {
  constexpr std::int64_t fewest = 256, run = 16;
  static_assert(run % lanes == 0);
  if (count < fewest) return moments_of<C>(count, value).variance;
  const auto sampled = [&](std::int64_t i) { return value((4 * (i / run) + i / run % 4) * run + i % run); };
  return moments_of<C>(count / (4 * run) * run, sampled).variance;
}

/// A group and what its codes lie about.
template <class C>
struct Outline {
  const C* values;     // [whole_vectors(count)]
  const float* means;  // [whole_vectors(count)], or null where it is coded without
  bf16 mean;           // of what they leave
  C variance;          // about that
};

/// `means` [whole_vectors(count)], or null.
template <class C, class T>
Outline<C> outline(const T* x, std::int64_t count, const float* means, Room<C>& room) {
  const C* const values = in_vectors<C>(x, count, room);
  const auto value = [values](std::int64_t i) { return load(values + i); };
  Moments<C> moments;
  if (means != nullptr) {
    moments = moments_of<C>(count, [=](std::int64_t i) { return load(values + i) - load_as<C>(means + i); });
    // A class token is unlike the tokens whose mean it would be held by: a quarter of the values tells. It may miss a
    // channel that lies far off, and then finds about the variance that the means leave.
    constexpr C clearly = C(1.25);
    if (!(moments.variance < clearly * sampled_variance<C>(count, value))) means = nullptr;
  }
  if (means == nullptr) moments = moments_of<C>(count, value);
  const bf16 mean = nearest(static_cast<double>(moments.mean));
  const C off = moments.mean - static_cast<C>(static_cast<float>(mean));
  return {values, means, mean, moments.variance + off * off};
}

/// Floats can square the values and sum the squares.
bool fits_floats(const Outline<float>& group) { return group.variance > 0x1p-100F && group.variance < 0x1p120F; }

/// QuantizedTensor a group of `count` values that C can square. `codes` [whole_vectors(count)].
template <class C>
Kept code_group(const Outline<C>& group, std::int64_t count, int bits, const Signs& signs, std::uint8_t* codes) {
  if (!std::isfinite(group.variance) || group.variance == 0) {
    std::fill_n(codes, count, std::uint8_t{0});
    if (group.variance == 0) return {bf16(group.means == nullptr ? -0.0F : 0.0F), group.mean};
    const bf16 none(std::numeric_limits<float>::quiet_NaN());
    return {none, none};
  }
  alignas(64) Room<C> room;
  const C mean = static_cast<C>(static_cast<float>(group.mean));
  const Quantizer<C> quantizer(bits, std::sqrt(group.variance), codes);
  const auto turned = [&](const auto& value) {
    const auto take = [=, turns = &signs](std::int64_t i, C factor) {
      return turns->applied<C>(value(i) * factor - mean * factor, i);
    };
    return hadamard_transform<Passes::reads_in_order>(count, room.data(), take, quantizer).product();
  };
  const auto raw = [values = group.values](std::int64_t i) { return load(values + i); };
  const auto centred = [raw, means = group.means](std::int64_t i) { return raw(i) - load_as<C>(means + i); };
  const double product = group.means == nullptr ? turned(raw) : turned(centred);
  const double step = static_cast<double>(group.variance) * static_cast<double>(count) / product;
  return {nearest(group.means == nullptr ? -step : step), group.mean};
}

template <class T>
void encode_groups(const T* x, const QuantizedTensor& coded, const Means& means) {
  const Layout to(coded.shape, coded.coding, coded.bytes.raw());
  // Whole groups and whole blocks: several together, whose roots and quotients are not waited for, and which stay in
  // the first cache beside the next ones.
  constexpr std::int64_t most_together = 8;
  const std::int64_t together = std::clamp<std::int64_t>(2048 / to.size, 1, most_together);
  const std::int64_t least = std::max(to.unit(), block), unit = std::max(least, together * to.size / least * least);
  const std::int64_t units = (to.count + unit - 1) / unit;
  struct Scratch {
    explicit Scratch(const Means& of) : means(of) {}
    GroupMeans means;
    alignas(64) Room<float> room;
  };
  parallel_for(units, std::max<std::int64_t>(serial_below / unit, 1), [&](std::int64_t first, std::int64_t last) {
    std::vector<Scratch> scratch;  // of each group at once
    scratch.reserve(static_cast<std::size_t>(together));
    for (std::int64_t i = 0; i < together; ++i) scratch.emplace_back(means);
    std::array<Outline<float>, most_together> outlines;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(unit + lanes));
    const std::int64_t share_end = std::min(last * unit, to.count);
    for (std::int64_t i = first * unit; i < share_end; i += unit) {
      const std::int64_t end = std::min(i + unit, share_end);
      for (std::int64_t from = i; from < end; from += together * to.size) {
        const std::int64_t some = std::min(end, from + together * to.size);
        for (std::int64_t at = from; at < some; at += to.size) {
          const auto place = static_cast<std::size_t>((at - from) / to.size);
          const std::int64_t count = to.length(at / to.size);
          outlines[place] = outline<float>(x + at, count, scratch[place].means.of(at, count), scratch[place].room);
        }
        for (std::int64_t at = from; at < some; at += to.size) {
          const auto place = static_cast<std::size_t>((at - from) / to.size);
          const std::int64_t group = at / to.size, count = to.length(group);
          const Signs signs(coded.key, group, count);
          std::uint8_t* const here = codes.data() + (at - i);
          alignas(64) Room<double> room;
          const Kept kept =
              fits_floats(outlines[place])
                  ? code_group<float>(outlines[place], count, to.bits, signs, here)
                  : code_group<double>(outline<double>(x + at, count, scratch[place].means.of(at, count), room), count,
                                       to.bits, signs, here);
          to.set_group(group, kept);
          const std::int64_t next = at + together * to.size;
          prefetch(x, next, std::min(share_end, next + to.size));
        }
      }
      pack_row(codes.data(), end - i, to.bits, to.block_at(i));
    }
  });
}

/// A group from its codes [whole_vectors(count)], in the precision of C: `write(values, i)` gets those from i on, a
/// vector at a time, of which the last may go beyond `count`. `means` [whole_vectors(count)], or null.
template <class C, class F>
void decode_group(const std::uint8_t* codes, std::int64_t count, int bits, const float* means, const Signs& signs,
                  Kept kept, const F& write) {
  alignas(64) Room<C> values;
  const C step = static_cast<C>(std::abs(static_cast<float>(kept.step))),
          mean = static_cast<C>(static_cast<float>(kept.mean)), middle = static_cast<C>((1 << bits) - 1) / 2;
  const auto take = [=](std::int64_t i, C factor) {
    return (__builtin_convertvector(load_as<std::int32_t>(codes + i), Lanes<C>) - middle) * (step * factor);
  };
  const Signs* const turns = &signs;
  if (means != nullptr && !std::signbit(static_cast<float>(kept.step)))
    hadamard_transform<Passes::writes_in_order>(
        count, values.data(), take, [=](int, std::int64_t i, const Lanes<C>& turned) {
          write(turns->applied<C>(turned, i) + (load_as<C>(means + i) + mean), i);
        });
  else
    hadamard_transform<Passes::writes_in_order>(
        count, values.data(), take,
        [=](int, std::int64_t i, const Lanes<C>& turned) { write(turns->applied<C>(turned, i) + mean, i); });
}

/// Elements [begin, end) into `out`.
template <class T>
void decode_groups(const QuantizedTensor& coded, std::int64_t begin, std::int64_t end, const Means& means, T* out) {
  const Layout from(coded.shape, coded.coding, coded.bytes.raw());
  alignas(64) std::array<std::uint8_t, max_hadamard_group + 2 * block> codes{};
  std::array<T, max_hadamard_group> room;
  GroupMeans group_means(means);
  for (std::int64_t group = begin / from.size; group * from.size < end; ++group) {
    const std::int64_t at = group * from.size, count = from.length(group), start = at / block * block;
    unpack_blocks(from.block_at(start), from.block_end_of(at + count) - start, from.bits, codes.data());
    const std::uint8_t* const own = codes.data() + (at - start);
    const Kept kept = from.group<Kept>(group);
    const Signs signs(coded.key, group, count);
    const float* const off = group_means.of(at, count);
    const std::int64_t low = std::max(begin, at), high = std::min(end, at + count);
    T* const to = low == at && high == at + whole_vectors(count) ? out + (at - begin) : room.data();
    // No decoded value is further from the mean than the norm of the levels.
    const double reach = group_means.largest(at, count) + std::abs(static_cast<double>(static_cast<float>(kept.mean))) +
                         std::abs(static_cast<double>(static_cast<float>(kept.step))) * (1 << from.bits) *
                             std::sqrt(static_cast<double>(count));
    if (reach <= std::min(most_finite<T>, 0x1p126))
      decode_group<float>(own, count, from.bits, off, signs, kept,
                          [to](const Lanes<float>& values, std::int64_t i) { store_as(values, to + i); });
    else
      decode_group<double>(own, count, from.bits, off, signs, kept, [to](const Lanes<double>& values, std::int64_t i) {
        for (std::int64_t lane = 0; lane < lanes; ++lane) to[i + lane] = held<T>(values[lane]);
      });
    if (to == room.data()) std::copy(to + (low - at), to + (high - at), out + (low - begin));
  }
}

}  // namespace

double hadamard_error(int bits) {
  const double distortion = max_quantizers[static_cast<std::size_t>(bits)].distortion;
  return distortion / (1 - distortion);
}

Shape means_shape(const Shape& shape, const QuantConfig& coding) {
  if (coding.rounding != Rounding::hadamard || shape.rank() < 3 || shape.count() == 0 ||
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
      const T* const rows = in + sample * positions * columns + begin;
      std::size_t row = 0;
      for (; row + 4 <= offsets.size(); row += 4) {
        const T *const a = rows + offsets[row], *const b = rows + offsets[row + 1], *const c = rows + offsets[row + 2],
                       *const d = rows + offsets[row + 3];
#pragma GCC ivdep
        for (std::int64_t column = 0; column < count; ++column)
          sums[column] += (to_coded(a[column]) + to_coded(b[column])) + (to_coded(c[column]) + to_coded(d[column]));
      }
      for (; row < offsets.size(); ++row) {
        const T* const a = rows + offsets[row];
#pragma GCC ivdep
        for (std::int64_t column = 0; column < count; ++column) sums[column] += to_coded(a[column]);
      }
      const float part = 1 / static_cast<float>(stretches);
      for (std::int64_t column = 0; column < count; ++column)
        sums[column] = std::isfinite(sums[column]) ? sums[column] * part : 0;
    });
  });
}

void encode_hadamard(const Tensor& x, const QuantizedTensor& codes, std::span<const float> means) {
  with_float_type(x.dtype(), [&]<class T>(Type<T>) { encode_groups(x.data<T>(), codes, Means(codes, means, 0)); });
}

void decode_hadamard(const QuantizedTensor& codes, std::int64_t begin, std::int64_t end, std::span<const float> means,
                     std::int64_t first_sample, std::byte* out) {
  with_float_type(codes.dtype, [&]<class T>(Type<T>) {
    decode_groups(codes, begin, end, Means(codes, means, first_sample), reinterpret_cast<T*>(out));
  });
}

}  // namespace lacuna::quant
