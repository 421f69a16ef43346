#include "ops/cuda/elements.h"
#include "ops/quantize/hadamard_cuda.h"
#include "ops/quantize/hadamard_group.h"
#include "ops/quantize/pack_tile.h"

namespace lacuna::cuda {
namespace {

/// A thread a channel of a sample.
template <class T>
struct Estimate {
  static constexpr int threads = 128;
  EstimateMeans what;

  LACUNA_DEVICE void operator()(const Block<Estimate>& block) const {
    const std::int64_t channel = block.global_thread();
    if (channel >= what.samples * what.columns) return;
    const std::int64_t sample = channel / what.columns, column = channel % what.columns,
                       stretch = what.positions / quant::min_positions, stretches = what.positions / stretch;
    const T* const x = static_cast<const T*>(what.x) + sample * what.positions * what.columns + column;
    const auto value = [&](std::int64_t i) {
      return to_compute(x[quant::sampled_position(i, stretch) * what.columns]);
    };
    float sum = 0;
    std::int64_t i = 0;
    for (; i + 4 <= stretches; i += 4) sum += (value(i) + value(i + 1)) + (value(i + 2) + value(i + 3));
    for (; i < stretches; ++i) sum += value(i);
    what.means[channel] = sum - sum == 0 ? sum * (1 / static_cast<float>(stretches)) : 0.0F;
  }
};

/// A group as the CPU centres it (hadamard_quantize.cpp).
template <class C>
struct Centred {
  bool by_channel;
  std::uint16_t mean;  // bits of a bf16
  C variance;
};
template <class C>
struct Moments {
  C mean, variance;
};

LACUNA_DEVICE inline std::uint16_t nearest(double value) {
  constexpr double most = 0x1.FEp127;
  value = value < -most ? -most : value;  // NaN passes
  return bf16(static_cast<float>(value > most ? most : value)).bits;
}
LACUNA_DEVICE inline float float_of(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

/// A block of threads a group.
template <class T>
struct QuantizeGroup {
  static constexpr int threads = hadamard_threads;
  struct Shared {
    alignas(16) std::uint8_t codes[longest_hadamard_group];
    double values[longest_hadamard_group];
    double sums[sums_at_once];
    float means[longest_hadamard_group];
  };
  const T* x;
  HadamardCodes to;
  std::uint8_t* unpacked;

  LACUNA_DEVICE void operator()(const Block<QuantizeGroup>& block) const {
    const std::int64_t first = block.index() * to.size, left = to.count - first,
                       count = left < to.size ? left : to.size;
    Shared& shared = block.shared();
    if (to.means.values != nullptr)
      for (std::int64_t i = block.thread(); i < count; i += threads) shared.means[i] = to.means.of(first + i);
    const Centred<float> floats = centre<float>(block, first, count);
    // Whether f32 holds the squares of the values and their sum.
    if (floats.variance > 0x1p-100F && floats.variance < 0x1p120F)
      quantize(block, count, floats);
    else
      quantize(block, count, centre<double>(block, first, count));
    if (unpacked == nullptr)
      return pack_tile(block, shared.codes, static_cast<int>(count), to.bits, to.codes + first / 8 * to.bits);
    for (std::int64_t i = block.thread(); i < count; i += threads) unpacked[first + i] = shared.codes[i];
  }

 private:
  template <class C>
  LACUNA_DEVICE static C* values_of(Shared& shared) {
    return reinterpret_cast<C*>(shared.values);
  }

  /// Moments of `count` values, by their differences from the first, so that squares do not cancel.
  template <class C, class F>
  LACUNA_DEVICE Moments<C> moments_of(const Block<QuantizeGroup>& block, std::int64_t count, const F& value) const {
    const C first = value(0), size = static_cast<C>(count);
    C sums{}, squares{};
    if (block.thread() < sums_at_once)
      SumOrder::rounds(count).for_elements(block.thread(), count, [&](std::int64_t i) {
        const C off = value(i) - first;
        sums += off;
        squares += off * off;
      });
    C* const scratch = reinterpret_cast<C*>(block.shared().sums);
    const C mean = total(block, sums, scratch) / size;
    const C variance = total(block, squares, scratch) / size - mean * mean;
    return {first + mean, variance < 0 ? C{} : variance};
  }

  /// Loads the values, and chooses what they are centred by.
  template <class C>
  LACUNA_DEVICE Centred<C> centre(const Block<QuantizeGroup>& block, std::int64_t first, std::int64_t count) const {
    C* const values = values_of<C>(block.shared());
    const float* const means = block.shared().means;
    block.sync();
    for (std::int64_t i = block.thread(); i < count; i += threads) values[i] = static_cast<C>(to_compute(x[first + i]));
    block.sync();
    const auto raw = [=](std::int64_t i) { return values[i]; };
    Moments<C> moments{};
    bool by_channel = to.means.values != nullptr;
    if (by_channel) {
      moments = moments_of<C>(block, count, [=](std::int64_t i) { return values[i] - static_cast<C>(means[i]); });
      constexpr C clearly = C(1.25);
      by_channel = moments.variance < clearly * sampled_variance<C>(block, count, raw);
    }
    if (!by_channel) moments = moments_of<C>(block, count, raw);
    const std::uint16_t mean = nearest(static_cast<double>(moments.mean));
    const C off = moments.mean - static_cast<C>(float_of(mean));
    return {by_channel, mean, moments.variance + off * off};
  }
  /// The variance of a quarter of the values: one chunk of 16 in four, at a place that moves from four to four.
  template <class C, class F>
  LACUNA_DEVICE C sampled_variance(const Block<QuantizeGroup>& block, std::int64_t count, const F& value) const {
    constexpr std::int64_t min_count = 256, chunk = 16;
    if (count < min_count) return moments_of<C>(block, count, value).variance;
    const auto sampled = [=](std::int64_t i) { return value((4 * (i / chunk) + i / chunk % 4) * chunk + i % chunk); };
    return moments_of<C>(block, count / (4 * chunk) * chunk, sampled).variance;
  }

  LACUNA_DEVICE void write_params(const Block<QuantizeGroup>& block, std::uint16_t step, std::uint16_t mean) const {
    if (block.thread() != 0) return;
    std::uint8_t* const at = to.params + block.index() * 4;
    at[0] = static_cast<std::uint8_t>(step);
    at[1] = static_cast<std::uint8_t>(step >> 8);
    at[2] = static_cast<std::uint8_t>(mean);
    at[3] = static_cast<std::uint8_t>(mean >> 8);
  }

  template <class C>
  LACUNA_DEVICE void quantize(const Block<QuantizeGroup>& block, std::int64_t count, const Centred<C>& group) const {
    Shared& shared = block.shared();
    if (group.variance - group.variance != 0 || group.variance == 0) {
      for (std::int64_t i = block.thread(); i < count; i += threads) shared.codes[i] = 0;
      constexpr std::uint16_t minus = 0x8000, nan = 0x7fc0;
      const bool constant = group.variance == 0;
      write_params(block, !constant ? nan : group.by_channel ? std::uint16_t{0} : minus, constant ? group.mean : nan);
      return block.sync();
    }
    C* const values = values_of<C>(shared);
    const quant::HadamardSize shape = quant::hadamard_size(count);
    const bool covered = is_covered(shape, count);
    const C factor = covered ? transform_factor<C>(shape) : C(1);
    const C offset = static_cast<C>(float_of(group.mean)) * factor;
    const quant::SignWords signs(to.key, block.index());
    for (std::int64_t i = block.thread(); i < count; i += threads) {
      const C value = group.by_channel ? values[i] - static_cast<C>(shared.means[i]) : values[i];
      const C centred = value * factor - offset;
      values[i] = is_flipped(signs, i) ? -centred : centred;
    }
    block.sync();
    hadamard_transform<false>(block, values, count, shape);

    const C in_steps = static_cast<C>(1 / to.max_step) / std::sqrt(group.variance);
    const C half = static_cast<C>(1 << (to.bits - 1));
    const int top = (1 << to.bits) - 1;
    const SumOrder order = !covered          ? SumOrder::one_stream()
                           : shape.parts > 1 ? SumOrder::by_part(shape.part)
                                             : SumOrder::rounds(count);
    C products{};
    if (block.thread() < sums_at_once)
      order.for_elements(block.thread(), count, [&](std::int64_t i) {
        int code = static_cast<int>(values[i] * in_steps + half);
        code = code > 0 ? code : 0;
        code = code < top ? code : top;
        shared.codes[i] = static_cast<std::uint8_t>(code);
        products += values[i] * (static_cast<C>(code) - (half - C(0.5)));
      });
    const auto product = static_cast<double>(total(block, products, reinterpret_cast<C*>(shared.sums)));
    const double step = static_cast<double>(group.variance) * static_cast<double>(count) / product;
    write_params(block, nearest(group.by_channel ? step : -step), group.mean);
    block.sync();
  }
};

/// Packs codes that lie a byte an element.
struct PackCodes {
  static constexpr int threads = tile_threads;
  struct Shared {
    alignas(16) std::uint8_t codes[tile_elements];
  };
  const std::uint8_t* unpacked;
  std::uint8_t* packed;
  std::int64_t count;
  int bits;

  LACUNA_DEVICE void operator()(const Block<PackCodes>& block) const {
    const std::int64_t tile = block.index() * tile_elements, left = count - tile;
    const int here = left < tile_elements ? static_cast<int>(left) : tile_elements;
    for (int i = block.thread(); i < here; i += threads) block.shared().codes[i] = unpacked[tile + i];
    block.sync();
    pack_tile(block, block.shared().codes, here, bits, packed + tile / 8 * bits);
  }
};

}  // namespace

void estimate_means(Stream stream, DType type, const EstimateMeans& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.samples * what.columns, Estimate<T>::threads), Estimate<T>{what});
  });
}

void quantize_hadamard(Stream stream, DType type, const void* x, const HadamardCodes& to, std::uint8_t* unpacked) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(to.count, to.size),
        QuantizeGroup<T>{.x = static_cast<const T*>(x), .to = to, .unpacked = unpacked});
  });
  if (unpacked != nullptr)
    run(stream, divide_up(to.count, tile_elements),
        PackCodes{.unpacked = unpacked, .packed = to.codes, .count = to.count, .bits = to.bits});
}

}  // namespace lacuna::cuda
