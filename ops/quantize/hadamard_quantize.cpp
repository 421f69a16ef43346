#include "ops/quantize/hadamard_quantize.h"

#include "core/parallel.h"
#include "ops/quantize/affine_dequantize.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/affine_quantize.h"
#include "ops/quantize/bit_planes.h"
#include "ops/quantize/hadamard_transform.h"
#include "ops/quantize/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

namespace lacuna::quant {

QuantizedTensor stored_means(const QuantizedTensor& quantized) {
  const Shape shape = means_shape(quantized.shape);
  const QuantConfig config = min_error_config(8, {});
  const std::int64_t own = quantized_bytes(shape, config), all = quantized.bytes.count();
  return {config, shape, DType::f32, quantized.bytes.reshape({all, 1}).leading(all - own, all).reshape({own}),
          ~quantized.key};
}

lacuna::Range samples_of(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = quantized.config.grouping.size, all = quantized.shape.count(),
                     sample = all / quantized.shape.front(), last = std::min(all, (end + size - 1) / size * size);
  return {begin / size * size / sample, (last + sample - 1) / sample};
}
std::int64_t max_samples(const QuantizedTensor& quantized, std::int64_t count) {
  const std::int64_t sample = quantized.shape.count() / quantized.shape.front();
  return std::min(quantized.shape.front(), (count + 2 * quantized.config.grouping.size) / sample + 2);
}

namespace {

/// The random signs of a group, one bit per element.
class Signs {
 public:
  Signs(std::uint64_t key, std::int64_t group, std::int64_t count) {
    const SignWords own(key, group);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count + 31) / 32; i += together) {
      const Some counters = Some{0, 1, 2, 3, 4, 5, 6, 7} + (own.first + static_cast<std::uint32_t>(i));
      const Some some = lowbias32(counters, own.mixed);
      std::memcpy(words_.data() + i, &some, sizeof some);
    }
  }

  /// `values`, the group's from element i on, with their signs flipped where a bit is set; i is a multiple of `lanes`.
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
  static constexpr Lanes<Whole> down_from(int max, std::index_sequence<i...>) {
    return Lanes<Whole>{static_cast<Whole>(max - static_cast<int>(i))...};
  }

  static constexpr std::size_t words = longest_group / 32, together = 8;
  typedef std::uint32_t Some __attribute__((vector_size(4 * together)));
  std::array<std::uint32_t, words> words_;
};

/// Sums all lanes; every lane of the result holds the sum.
template <std::size_t half, class Vector>
Vector all_lanes(Vector sum) {
  sum += exchanged<half>(sum);
  if constexpr (half > 1) return all_lanes<half / 2>(sum);
  return sum;
}
/// Sum of all lanes of four vectors.
template <class C>
C total(const Lanes<C>* sums) {
  return all_lanes<lanes / 2>((sums[0] + sums[1]) + (sums[2] + sums[3]))[0];
}

/// The stored parameters of a group. It dequantizes to the inverse transform of (code - (2^bits - 1) / 2) · |step|,
/// plus the mean, plus the channel means unless the step has a minus sign.
struct HadamardParams {
  bf16 step, mean;
};
static_assert(sizeof(HadamardParams) == group_params_bytes);

bf16 nearest(double value) { return bf16(static_cast<float>(std::clamp(value, -max_finite<bf16>, max_finite<bf16>))); }

template <class C>
using Scratch = std::array<C, longest_group>;

/// Channel means of consecutive samples.
struct Means {
  /// `means`: [samples, C] from `first_sample` on; null if values are not centred by channel.
  Means(const QuantizedTensor& quantized, const float* means, std::int64_t first_sample)
      : columns(quantized.shape.back()),
        sample(quantized.shape.count() / quantized.shape.front()),
        first(first_sample),
        values(means) {}

  std::int64_t columns, sample;  // elements of a row, of a sample
  std::int64_t first;            // sample
  const float* values;
};

/// The channel means of one group after the other, element by element.
class GroupMeans {
 public:
  explicit GroupMeans(const Means& means) : means_(means) {}

  /// Means of `count` elements from `at` on [whole_vectors(count)], valid until the next call; null if there are none.
  const float* of(std::int64_t at, std::int64_t count) {
    if (means_.values == nullptr) return nullptr;
    const std::int64_t begin = offset_of(at), column = at % means_.columns, whole = whole_vectors(count);
    if (count == whole && column + count <= means_.columns) return means_.values + begin + column;
    if (count == whole && means_.columns <= max_repeated && offset_of(at + count - 1) == begin) {
      if (begin != begin_) repeat(begin);
      return repeated_.data() + column;
    }
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t from = (at + i) % means_.columns, length = std::min(means_.columns - from, count - i);
      std::copy_n(means_.values + offset_of(at + i) + from, length, gathered_.data() + i);
      i += length;
    }
    std::fill(gathered_.data() + count, gathered_.data() + whole, gathered_[0]);
    return gathered_.data();
  }
  /// Largest magnitude of the means of the samples that hold elements [at, at + count); 0 if there are none.
  double largest(std::int64_t at, std::int64_t count) {
    if (means_.values == nullptr) return 0;
    const std::int64_t begin = offset_of(at), end = offset_of(at + count - 1) + means_.columns;
    if (begin != measured_.begin || end != measured_.end) {
      float max = 0;
#pragma omp simd reduction(max : max)
      for (std::int64_t i = begin; i < end; ++i) max = std::max(max, std::abs(means_.values[i]));
      largest_ = static_cast<double>(max);
      measured_ = {begin, end};
    }
    return largest_;
  }

 private:
  static constexpr std::int64_t max_repeated = longest_group;  // a group takes part of a longer row only

  std::int64_t offset_of(std::int64_t element) const {
    return (element / means_.sample - means_.first) * means_.columns;
  }
  void repeat(std::int64_t begin) {
    const std::int64_t all = means_.columns + longest_group;
    for (std::int64_t i = 0; i < all; i += means_.columns)
      std::copy_n(means_.values + begin, std::min(means_.columns, all - i), repeated_.data() + i);
    begin_ = begin;
  }

  alignas(64) Scratch<float> gathered_;
  alignas(64) std::array<float, max_repeated + longest_group> repeated_;  // a sample's means, cyclically
  const Means& means_;
  std::int64_t begin_ = -1;  // offset of the sample in repeated_
  lacuna::Range measured_{-1, -1};
  double largest_ = 0;  // of the means in measured_
};

/// A group's values, padded to whole vectors with the first value: in place if possible, otherwise in `scratch`.
template <class C, class T>
const C* in_vectors(const T* x, std::int64_t count, Scratch<C>& scratch) {
  if constexpr (std::is_same_v<C, float> && std::is_same_v<T, float>)
    if (count % lanes == 0) return x;
  for (std::int64_t i = 0; i < count; ++i) scratch[static_cast<std::size_t>(i)] = static_cast<C>(to_f32(x[i]));
  std::fill(scratch.data() + count, scratch.data() + whole_vectors(count), scratch[0]);
  return scratch.data();
}

template <class C>
struct Moments {
  C mean, variance;
};
/// Moments of `count` values; `value(i)` gives those from i on, a vector at a time, padded with the first value. Sums
/// are of differences from the first value, so that squares do not cancel.
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
  const C sum = total<C>(sums), mean = sum / size;
  return {first + mean, std::max(total<C>(squares) / size - mean * mean, C{0})};
}

/// Quantizes transformed values as they come, and sums their product with what the codes stand for, in steps.
template <class C>
class GroupQuantizer {
 public:
  GroupQuantizer(int bits, C deviation, std::uint8_t* codes)
      : top_(Whole{} + ((1 << bits) - 1)),
        codes_(codes),
        in_steps_(static_cast<C>(1 / max_quantizers[static_cast<std::size_t>(bits)].step) / deviation),
        half_(static_cast<C>(1 << (bits - 1))) {}

  void operator()(int stream, std::int64_t i, const Lanes<C>& values) {
    auto code = __builtin_convertvector(values * in_steps_ + half_, Whole);
    code = code > 0 ? code : Whole{};
    code = code < top_ ? code : top_;
    const auto bytes = cut<std::uint8_t, 0>(code);
    std::memcpy(codes_ + i, &bytes, sizeof bytes);
    products_[stream] += values * (__builtin_convertvector(code, Lanes<C>) - (half_ - C(0.5)));
  }
  double product() const { return static_cast<double>(total<C>(products_)); }

 private:
  using Whole = Lanes<std::int32_t>;

  Lanes<C> products_[4] = {};
  Whole top_;
  std::uint8_t* codes_;
  C in_steps_, half_;
};

/// Variance of a quarter of the values: one chunk of 16 in four, at a place that moves from four to four. At a fixed
/// distance the chunks would come from the same channels in every group.
template <class C, class F>
C sampled_variance(std::int64_t count, const F& value) {
  constexpr std::int64_t min_count = 256, chunk = 16;
  static_assert(chunk % lanes == 0);
  if (count < min_count) return moments_of<C>(count, value).variance;
  const auto sampled = [&](std::int64_t i) { return value((4 * (i / chunk) + i / chunk % 4) * chunk + i % chunk); };
  return moments_of<C>(count / (4 * chunk) * chunk, sampled).variance;
}

/// A group's values and what they are centred by.
template <class C>
struct CentredGroup {
  const C* values;     // [whole_vectors(count)]
  const float* means;  // of its channels [whole_vectors(count)], or null
  bf16 mean;           // of values - means
  C variance;          // about `mean`
};

/// `means` [whole_vectors(count)], or null.
template <class C, class T>
CentredGroup<C> centre(const T* x, std::int64_t count, const float* means, Scratch<C>& scratch) {
  const C* const values = in_vectors<C>(x, count, scratch);
  const auto value = [values](std::int64_t i) { return load(values + i); };
  Moments<C> moments;
  if (means != nullptr) {
    moments = moments_of<C>(count, [=](std::int64_t i) { return load(values + i) - load_as<C>(means + i); });
    // A class token differs from the tokens whose mean it would be centred by: a quarter of the values shows it. The
    // sample may miss a channel that lies far off, and then finds about the variance that the means leave.
    constexpr C clearly = C(1.25);
    if (!(moments.variance < clearly * sampled_variance<C>(count, value))) means = nullptr;
  }
  if (means == nullptr) moments = moments_of<C>(count, value);
  const bf16 mean = nearest(static_cast<double>(moments.mean));
  const C off = moments.mean - static_cast<C>(static_cast<float>(mean));
  return {values, means, mean, moments.variance + off * off};
}

/// Whether f32 holds the squares of the values and their sum.
bool fits_floats(const CentredGroup<float>& group) { return group.variance > 0x1p-100F && group.variance < 0x1p120F; }

/// Quantizes a group in the precision of C, which holds its squares. `codes` [whole_vectors(count)].
template <class C>
HadamardParams quantize_group(const CentredGroup<C>& group, std::int64_t count, int bits, const Signs& signs,
                              std::uint8_t* codes) {
  if (!std::isfinite(group.variance) || group.variance == 0) {
    std::fill_n(codes, count, std::uint8_t{0});
    if (group.variance == 0) return {bf16(group.means == nullptr ? -0.0F : 0.0F), group.mean};
    const bf16 nan(std::numeric_limits<float>::quiet_NaN());
    return {nan, nan};
  }
  alignas(64) Scratch<C> scratch;
  const C mean = static_cast<C>(static_cast<float>(group.mean));
  const GroupQuantizer<C> quantizer(bits, std::sqrt(group.variance), codes);
  const auto transformed_product = [&](const auto& value) {
    const auto take = [=, flips = &signs](std::int64_t i, C factor) {
      return flips->applied<C>(value(i) * factor - mean * factor, i);
    };
    return hadamard_transform<Passes::reads_in_order>(count, scratch.data(), take, quantizer).product();
  };
  const auto raw = [values = group.values](std::int64_t i) { return load(values + i); };
  const auto centred = [raw, means = group.means](std::int64_t i) { return raw(i) - load_as<C>(means + i); };
  const double product = [&] {
    if constexpr (std::is_same_v<C, double>)  // rare: code once for both
      return transformed_product(
          [=, means = group.means](std::int64_t i) { return means == nullptr ? raw(i) : centred(i); });
    else
      return group.means == nullptr ? transformed_product(raw) : transformed_product(centred);
  }();
  const double step = static_cast<double>(group.variance) * static_cast<double>(count) / product;
  return {nearest(group.means == nullptr ? -step : step), group.mean};
}

/// How groups are dealt out to threads: units of whole groups and whole blocks. The groups that are handled together
/// hide the latency of each other's roots and quotients, and stay in L1 beside the next ones.
struct Units {
  explicit Units(const Layout& to)
      : together(std::clamp<std::int64_t>(2048 / to.size, 1, max_together)),
        size(std::max(to.unit(), together * to.size / to.unit() * to.unit())),
        count((to.count + size - 1) / size),
        parts(count < std::max<std::int64_t>(serial_below / size, 1) ? 1 : threads()) {}

  static constexpr std::int64_t max_together = 8;
  std::int64_t together;     // groups
  std::int64_t size, count;  // elements of a unit; units
  std::int64_t parts;        // threads
};

/// `codes`: u8 [units.parts, units.size + lanes].
template <class T>
void quantize_groups(const T* x, const QuantizedTensor& quantized, const Layout& to, const Units& units,
                     const Means& means, std::uint8_t* all_codes) {
  struct GroupScratch {
    explicit GroupScratch(const Means& of) : means(of) {}
    GroupMeans means;
    alignas(64) Scratch<float> values;
  };
  const std::int64_t step = units.together * to.size;
  const auto quantize_part = [&](std::int64_t part_index, std::int64_t) {
    GroupScratch scratch[Units::max_together]{GroupScratch(means), GroupScratch(means), GroupScratch(means),
                                              GroupScratch(means), GroupScratch(means), GroupScratch(means),
                                              GroupScratch(means), GroupScratch(means)};
    std::array<CentredGroup<float>, Units::max_together> groups;
    std::uint8_t* const codes = all_codes + part_index * (units.size + lanes);
    const lacuna::Range own = part(units.count, part_index, units.parts);
    const std::int64_t share_end = std::min(own.end * units.size, to.count);
    for (std::int64_t i = own.begin * units.size; i < share_end; i += units.size) {
      const std::int64_t end = std::min(i + units.size, share_end);
      for (std::int64_t from = i; from < end; from += step) {
        const std::int64_t some = std::min(end, from + step);
        for (std::int64_t at = from; at < some; at += to.size) {
          const auto place = static_cast<std::size_t>((at - from) / to.size);
          const std::int64_t count = to.length(at / to.size);
          groups[place] = centre<float>(x + at, count, scratch[place].means.of(at, count), scratch[place].values);
        }
        for (std::int64_t at = from; at < some; at += to.size) {
          const auto place = static_cast<std::size_t>((at - from) / to.size);
          const std::int64_t group = at / to.size, count = to.length(group);
          const Signs signs(quantized.key, group, count);
          std::uint8_t* const here = codes + (at - i);
          alignas(64) Scratch<double> doubles;
          const HadamardParams params =
              fits_floats(groups[place])
                  ? quantize_group<float>(groups[place], count, to.bits, signs, here)
                  : quantize_group<double>(centre<double>(x + at, count, scratch[place].means.of(at, count), doubles),
                                           count, to.bits, signs, here);
          to.set_group(group, params);
          const std::int64_t next = at + step;
          prefetch(x, next, std::min(share_end, next + to.size));
        }
      }
      pack_row(codes, end - i, to.bits, to.block_at(i));
    }
  };
  if (units.parts == 1)
    quantize_part(0, 0);
  else
    parallel_tasks(units.parts, quantize_part);
}

/// Dequantizes a group in the precision of C from its codes [whole_vectors(count)]. `write(values, i)` gets the values
/// from i on, a vector at a time; the last vector may reach beyond `count`. `means` [whole_vectors(count)], or null.
template <class C, class F>
void dequantize_group(const std::uint8_t* codes, std::int64_t count, int bits, const float* means, const Signs& signs,
                      HadamardParams params, const F& write) {
  alignas(64) Scratch<C> values;
  const C step = static_cast<C>(std::abs(static_cast<float>(params.step))),
          mean = static_cast<C>(static_cast<float>(params.mean)), middle = static_cast<C>((1 << bits) - 1) / 2;
  const auto take = [=](std::int64_t i, C factor) {
    return (__builtin_convertvector(load_as<std::int32_t>(codes + i), Lanes<C>) - middle) * (step * factor);
  };
  const Signs* const flips = &signs;
  if (std::signbit(static_cast<float>(params.step))) means = nullptr;
  if constexpr (std::is_same_v<C, double>)  // rare: code once for both
    hadamard_transform<Passes::writes_in_order>(
        count, values.data(), take, [=](int, std::int64_t i, const Lanes<C>& some) {
          write(flips->applied<C>(some, i) + (means == nullptr ? Lanes<C>{} + mean : load_as<C>(means + i) + mean), i);
        });
  else if (means != nullptr)
    hadamard_transform<Passes::writes_in_order>(count, values.data(), take,
                                                [=](int, std::int64_t i, const Lanes<C>& some) {
                                                  write(flips->applied<C>(some, i) + (load_as<C>(means + i) + mean), i);
                                                });
  else
    hadamard_transform<Passes::writes_in_order>(
        count, values.data(), take,
        [=](int, std::int64_t i, const Lanes<C>& some) { write(flips->applied<C>(some, i) + mean, i); });
}

/// The same, written to `out` [whole_vectors(count)], of float or bf16.
template <class T>
[[gnu::noinline]] void dequantize_narrow_group(const std::uint8_t* codes, std::int64_t count, int bits,
                                               const float* means, const Signs& signs, HadamardParams params, T* out) {
  dequantize_group<float>(codes, count, bits, means, signs, params,
                          [out](const Lanes<float>& values, std::int64_t i) { store_as(values, out + i); });
}
/// The same for values that f32 may not hold.
[[gnu::noinline]] void dequantize_wide_group(const std::uint8_t* codes, std::int64_t count, int bits,
                                             const float* means, const Signs& signs, HadamardParams params,
                                             Scratch<double>& out) {
  dequantize_group<double>(codes, count, bits, means, signs, params,
                           [&out](const Lanes<double>& values, std::int64_t i) { store(values, out.data() + i); });
}

/// Dequantizes elements [begin, end) into `out` on the calling thread.
template <class T>
void dequantize_groups(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Means& means,
                       T* out) {
  const Layout from(quantized.shape, quantized.config, quantized.bytes.raw());
  alignas(64) std::array<std::uint8_t, longest_group + 2 * block> codes{};
  std::array<T, longest_group> whole_group;
  GroupMeans group_means(means);
  for (std::int64_t group = begin / from.size; group * from.size < end; ++group) {
    const std::int64_t at = group * from.size, count = from.length(group), start = at / block * block;
    unpack_blocks(from.block_at(start), from.block_end_of(at + count) - start, from.bits, codes.data());
    const std::uint8_t* const own = codes.data() + (at - start);
    const auto params = from.group<HadamardParams>(group);
    const Signs signs(quantized.key, group, count);
    const float* const channel_means = group_means.of(at, count);
    const std::int64_t low = std::max(begin, at), high = std::min(end, at + count);
    T* const to = low == at && high == at + whole_vectors(count) ? out + (at - begin) : whole_group.data();
    // No dequantized value is further from the mean than the norm of the levels.
    const double reach = group_means.largest(at, count) +
                         std::abs(static_cast<double>(static_cast<float>(params.mean))) +
                         std::abs(static_cast<double>(static_cast<float>(params.step))) * (1 << from.bits) *
                             std::sqrt(static_cast<double>(count));
    if (reach <= std::min(max_finite<T>, 0x1p126)) {
      if constexpr (std::is_same_v<T, double>) {  // rare: no code of its own
        alignas(64) Scratch<float> narrow;
        dequantize_narrow_group(own, count, from.bits, channel_means, signs, params, narrow.data());
        std::copy_n(narrow.data(), whole_vectors(count), to);
      } else {
        dequantize_narrow_group(own, count, from.bits, channel_means, signs, params, to);
      }
    } else {
      alignas(64) Scratch<double> wide;
      dequantize_wide_group(own, count, from.bits, channel_means, signs, params, wide);
      for (std::int64_t i = 0; i < whole_vectors(count); ++i)
        to[i] = clamp_finite<T>(wide[static_cast<std::size_t>(i)]);
    }
    if (to == whole_group.data()) std::copy(to + (low - at), to + (high - at), out + (low - begin));
  }
}

void dequantize_range(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Means& means,
                      std::byte* out) {
  with_float_type(quantized.dtype, [&]<class T>(Type<T>) {
    dequantize_groups(quantized, begin, end, means, reinterpret_cast<T*>(out));
  });
}

/// Estimates the channel means of each sample into `means` f32 [samples, C], from one of every positions / 32
/// positions; 0 where the estimate is not finite.
template <class T>
void estimate_means(const T* x, std::int64_t positions, const Tensor& means) {
  const std::int64_t samples = means.shape().front(), columns = means.shape().back(),
                     stretch = positions / min_positions, stretches = positions / stretch;
  std::array<std::int64_t, 2 * min_positions> offsets;  // [stretches]
  for (std::int64_t i = 0; i < stretches; ++i)
    offsets[static_cast<std::size_t>(i)] = sampled_position(i, stretch) * columns;
  float* const out = means.data<float>();
  constexpr std::int64_t together = 256;  // columns whose sums stay in L1
  const std::int64_t parts = (columns + together - 1) / together;
  parallel_tasks(samples * parts, [&](std::int64_t task, std::int64_t) {
    const std::int64_t sample = task / parts, begin = task % parts * together,
                       count = std::min(together, columns - begin);
    float* const sums = out + sample * columns + begin;  // [count]
    std::fill_n(sums, count, 0.0F);
    const T* const rows = x + sample * positions * columns + begin;
    std::size_t row = 0;
    const auto all = static_cast<std::size_t>(stretches);
    for (; row + 4 <= all; row += 4) {
      const T *const a = rows + offsets[row], *const b = rows + offsets[row + 1], *const c = rows + offsets[row + 2],
                     *const d = rows + offsets[row + 3];
#pragma GCC ivdep
      for (std::int64_t column = 0; column < count; ++column)
        sums[column] += (to_f32(a[column]) + to_f32(b[column])) + (to_f32(c[column]) + to_f32(d[column]));
    }
    for (; row < all; ++row) {
      const T* const a = rows + offsets[row];
#pragma GCC ivdep
      for (std::int64_t column = 0; column < count; ++column) sums[column] += to_f32(a[column]);
    }
    const float weight = 1 / static_cast<float>(stretches);
    for (std::int64_t column = 0; column < count; ++column)
      sums[column] = std::isfinite(sums[column]) ? sums[column] * weight : 0;
  });
}

/// Estimates and stores the channel means of x; returns them as they dequantize, f32 [samples, C].
Tensor quantized_means(const Tensor& x, const QuantizedTensor& quantized) {
  const QuantizedTensor stored = stored_means(quantized);
  Tensor means = Tensor::empty(stored.shape, DType::f32, x.device(), Purpose::workspace);
  if (means.count() == 0) return means;
  if (x.device() != Device::meta)
    with_float_type(x.dtype(),
                    [&]<class T>(Type<T>) { estimate_means(x.data<T>(), x.count() / means.count(), means); });
  quantize_affine(means, stored, nullptr);
  dequantize_affine(stored, 0, means.count(), means);
  return means;
}

const float* values_of(const Tensor& means) { return means.count() == 0 ? nullptr : means.data<float>(); }

}  // namespace

Shape means_shape(const Shape& shape) {
  if (shape.rank() < 3 || shape.count() == 0 || shape.count() / shape.front() / shape.back() < min_positions)
    return {0, shape.back()};
  return {shape.front(), shape.back()};
}

void quantize_hadamard(const Tensor& x, const QuantizedTensor& quantized) {
  const Layout to(x.shape(), quantized.config, quantized.bytes.raw());
  const Units units(to);
  const Tensor means = quantized_means(x, quantized),
               codes = Tensor::empty({units.parts, units.size + lanes}, DType::u8, x.device(), Purpose::workspace);
  if (x.device() == Device::meta) return;
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    quantize_groups(x.data<T>(), quantized, to, units, Means(quantized, values_of(means), 0),
                    codes.data<std::uint8_t>());
  });
}

void dequantize_hadamard(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out) {
  const QuantizedTensor stored = stored_means(quantized);
  const std::int64_t columns = stored.shape.back(), size = quantized.config.grouping.size;
  Tensor means;  // f32 [samples that the range's groups belong to, C]
  lacuna::Range samples;
  if (stored.shape.count() > 0) {
    samples = samples_of(quantized, begin, end);
    means = Tensor::empty({max_samples(quantized, end - begin), columns}, DType::f32, out.device(), Purpose::workspace);
    dequantize_affine(stored, samples.begin * columns, samples.end * columns,
                      means.leading(0, samples.end - samples.begin));
  }
  if (out.device() == Device::meta) return;
  const Means range_means(quantized, means.defined() ? means.data<float>() : nullptr, samples.begin);
  const std::int64_t start = begin / size * size;
  parallel_for(
      end - start, serial_below,
      [&](std::int64_t share_begin, std::int64_t share_end) {
        const std::int64_t first = std::max(begin, start + share_begin);
        dequantize_range(quantized, first, start + share_end, range_means,
                         out.raw() + (first - begin) * size_of(quantized.dtype));
      },
      size);
}

BlockDequantizer hadamard_block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements,
                                            std::int64_t slots) {
  const QuantizedTensor stored = stored_means(quantized);
  if (stored.shape.count() == 0)
    return [quantized](std::int64_t begin, std::int64_t end, std::byte* out, std::int64_t) {
      dequantize_range(quantized, begin, end, Means(quantized, nullptr, 0), out);
    };
  const std::int64_t columns = stored.shape.back(), samples_per_slot = max_samples(quantized, max_elements);
  const Tensor scratch =
      Tensor::empty({slots, samples_per_slot, columns}, DType::f32, quantized.bytes.device(), Purpose::workspace);
  return [quantized, scratch, samples_per_slot, columns, dequantize_means = affine_block_dequantizer(stored)](
             std::int64_t begin, std::int64_t end, std::byte* out, std::int64_t slot) {
    const lacuna::Range samples = samples_of(quantized, begin, end);
    float* const means = scratch.data<float>() + slot * samples_per_slot * columns;  // [samples, C]
    dequantize_means(samples.begin * columns, samples.end * columns, reinterpret_cast<std::byte*>(means), 0);
    dequantize_range(quantized, begin, end, Means(quantized, means, samples.begin), out);
  };
}

}  // namespace lacuna::quant
