#include "ops/cuda/elements.h"
#include "ops/quantize/affine_cuda.h"
#include "ops/quantize/code_quads.h"
#include "ops/quantize/group_fit.h"
#include "ops/quantize/group_walk.h"
#include "ops/quantize/pack_tile.h"

namespace lacuna::cuda {
namespace {

constexpr float no_value = std::bit_cast<float>(0x7fc00000U);  // the least and the largest of no values: NaN

constexpr std::int32_t least_key = -0x7fffffff - 1, largest_key = 0x7fffffff;

/// Bits of a float to an integer in the order of the values, and back.
LACUNA_DEVICE inline std::int32_t ordered(std::int32_t key) { return key ^ ((key >> 31) & largest_key); }
LACUNA_DEVICE inline std::int32_t key_of(float value) { return ordered(std::bit_cast<std::int32_t>(value)); }
LACUNA_DEVICE inline float value_of(std::int32_t key) { return std::bit_cast<float>(ordered(key)); }
LACUNA_DEVICE inline bool is_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) != 0x7f800000U;
}

LACUNA_DEVICE inline ObservedKeys nothing_observed() { return {largest_key, least_key, largest_key, least_key}; }
LACUNA_DEVICE inline void add(ObservedKeys& to, float value) {
  const std::int32_t key = key_of(value);
  to.min = key < to.min ? key : to.min;
  to.max = key > to.max ? key : to.max;
  if (!is_finite(value)) return;
  to.finite_min = key < to.finite_min ? key : to.finite_min;
  to.finite_max = key > to.finite_max ? key : to.finite_max;
}

LACUNA_DEVICE inline void write_params(std::uint8_t* to, const quant::FittedParams& params) {
  const auto origin = static_cast<std::uint16_t>(params.origin);
  to[0] = static_cast<std::uint8_t>(params.step);
  to[1] = static_cast<std::uint8_t>(params.step >> 8);
  to[2] = static_cast<std::uint8_t>(origin);
  to[3] = static_cast<std::uint8_t>(origin >> 8);
}
/// The parameters of a group with a value that is not finite: all of it decodes to NaN.
LACUNA_DEVICE inline quant::FittedParams not_finite() { return {0x7fc0, 0}; }

LACUNA_DEVICE inline EncodingLine line_of(const quant::FittedGroup& group) {
  return {group.line_origin, group.line_factor, group.line_scale};
}

/// The code of a value in its upper half: (value - origin) · factor in units of 2^-16 steps, clamped to codes of
/// `bits`, plus a draw, as the CPU's Encoder.
LACUNA_DEVICE inline std::uint32_t sum_of(float value, const EncodingLine& line, int bits, std::int32_t draw) {
  const float bottom = 0.5F, top = static_cast<float>(((1 << bits) - 1) << 16);
  const float v = (value * line.scale - line.origin) * line.factor + 0.5F;
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::fmin(std::fmax(v, bottom), top)) + draw);  // NaN: 0
}
/// The third bytes of four words.
LACUNA_DEVICE inline std::uint32_t third_bytes(const std::uint32_t (&words)[4]) {
#ifdef __CUDA_ARCH__
  return __byte_perm(__byte_perm(words[0], words[1], 0x62), __byte_perm(words[2], words[3], 0x62), 0x5410);
#else
  return (words[0] >> 16 & 0xffU) | (words[1] >> 16 & 0xffU) << 8 | (words[2] >> 16 & 0xffU) << 16 |
         (words[3] >> 16 & 0xffU) << 24;
#endif
}
/// Codes of eight values. `draw(i)`: that of value i.
template <class F>
LACUNA_DEVICE inline EightCodes encoded(const Eight& values, const EncodingLine& line, int bits, const F& draw) {
  EightCodes codes;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    std::uint32_t sums[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = sum_of(values[4 * half + i], line, bits, draw(4 * half + i));
    codes[half] = third_bytes(sums);
  }
  return codes;
}

constexpr std::int32_t half_step = 0x8000;  // the draw of rounding to nearest

/// Codes of eight elements from `first` on.
LACUNA_DEVICE inline EightCodes encode(const Eight& values, const EncodingLine& line, std::int64_t first,
                                       const AffineCodes& to) {
  const quant::EightDraws draws(to.key(), first);
  return encoded(values, line, to.bits, [&](int i) { return to.draws ? draws[i] : half_step; });
}

struct KeyRange {
  std::int32_t min, max;
  LACUNA_DEVICE void add(const KeyRange& other) {
    min = other.min < min ? other.min : min;
    max = other.max > max ? other.max : max;
  }
};
LACUNA_DEVICE inline KeyRange keys_of(const Eight& values, int count) {
  KeyRange range{largest_key, least_key};
  if (count >= 8) {
#pragma unroll
    for (int i = 0; i < 8; ++i) range.add({key_of(values[i]), key_of(values[i])});
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < count) range.add({key_of(values[i]), key_of(values[i])});
  }
  return range;
}

/// Consecutive groups of a multiple of 8 elements, read once: a block of threads has a tile of whole groups and whole
/// packed blocks.
template <class T>
struct QuantizeTile {
  static constexpr int threads = tile_threads, blocks_together = 5;
  struct Shared {
    alignas(16) std::uint8_t codes[tile_elements];
    KeyRange ranges[threads];        // of each thread
    KeyRange group_ranges[threads];  // of each group
    EncodingLine lines[threads];     // of each group
  };
  Kept<T> x;
  AffineCodes to;
  quant::GroupFitter fitter;
  Divisor by_size;
  int elements;         // of a tile
  int lanes_per_group;  // that reduce it: a power of two
  bool within_warps;    // groups are those of so many neighbouring lanes

  LACUNA_DEVICE void operator()(const Block<QuantizeTile>& block) const {
    Shared& shared = block.shared();
    const std::int64_t tile = block.index() * elements, left = to.count - tile;
    const int count = left < elements ? static_cast<int>(left) : elements, size = static_cast<int>(to.size);
    const int groups = (count + size - 1) / size, at = block.thread() * 8;
    const int group = static_cast<int>(by_size.quotient(at));
    Eight values{};
    if (at < count) values = x.at(tile + at);
    KeyRange range = keys_of(values, count - at);
    if (within_warps) {
      reduce_lanes(range);
      if (block.thread() % lanes_per_group == 0) shared.group_ranges[group] = range;
    } else {
      shared.ranges[block.thread()] = range;
      block.sync();
      reduce_groups(block, groups, size / 8);
    }
    block.sync();
    if (block.thread() < groups) {
      const float low = value_of(shared.group_ranges[block.thread()].min);
      const float high = value_of(shared.group_ranges[block.thread()].max);
      const bool finite = is_finite(low) && is_finite(high);
      const quant::FittedGroup own = fitter.fit(finite ? low : 0.0F, finite ? high : 0.0F);
      shared.lines[block.thread()] = line_of(own);
      write_params(to.params + (tile / size + block.thread()) * 4, finite ? own.params : not_finite());
    }
    block.sync();
    EightCodes words{};
    if (at < count) words = encode(values, shared.lines[group], tile + at, to);
    write_codes(block, shared.codes, words, count, to.bits, to.codes + tile / 8 * to.bits);
  }

 private:
  LACUNA_DEVICE void reduce_lanes(KeyRange& range) const {
    for (int step = lanes_per_group / 2; step > 0; step /= 2)
      range.add({exchange(range.min, step), exchange(range.max, step)});
  }
  /// `eights`: threads that have values of one group.
  LACUNA_DEVICE void reduce_groups(const Block<QuantizeTile>& block, int groups, int eights) const {
    Shared& shared = block.shared();
    const int lane = block.thread() % lanes_per_group, at_once = threads / lanes_per_group;
    for (int from = 0; from < groups; from += at_once) {
      const int group = from + block.thread() / lanes_per_group;
      KeyRange range{largest_key, least_key};
      if (group < groups)
        for (int i = lane; i < eights; i += lanes_per_group) range.add(shared.ranges[group * eights + i]);
      reduce_lanes(range);
      if (lane == 0 && group < groups) shared.group_ranges[group] = range;
    }
  }
};

/// Consecutive groups of one to eight blocks of codes in a tensor of whole groups: some lanes of a warp have a group,
/// and 32 elements each. No thread waits for another warp.
template <class T>
struct QuantizeQuads {
  static constexpr int threads = 128;
  Kept<T> x;
  AffineCodes to;
  quant::GroupFitter fitter;
  int blocks_per_group;
  int lanes_per_group;  // a power of two: those of three blocks are 16, of which four have nothing

  LACUNA_DEVICE void operator()(const Block<QuantizeQuads>& block) const {
    const std::int64_t number = block.global_thread() / lanes_per_group;  // of the group
    const int place = block.thread() % lanes_per_group, lane = place % quad_lanes;
    const std::int64_t own = number * blocks_per_group + place / quad_lanes;
    const bool has_block = place < blocks_per_group * quad_lanes;
    const bool here = has_block && own * code_block < to.count;
    Eight values[quad_eights];
#pragma unroll
    for (int k = 0; k < quad_eights; ++k) values[k] = here ? x.at(own * code_block + lane * 8 + 32 * k) : Eight{};
    float low = no_value, high = no_value, finite = 0;  // NaN: some value is not finite
    if (has_block)
#pragma unroll
      for (int i = 0; i < 8 * quad_eights; ++i) {
        const float value = values[i / 8][i % 8];
        low = std::fmin(low, value);
        high = std::fmax(high, value);
        finite = math::fused(value, 0.0F, finite);
      }
    for (int step = lanes_per_group / 2; step > 0; step /= 2) {
      low = std::fmin(low, exchange(low, step));
      high = std::fmax(high, exchange(high, step));
      finite += exchange(finite, step);
    }
    const bool fits = finite == 0;
    const quant::FittedGroup group = fitter.fit(fits ? low : 0.0F, fits ? high : 0.0F);
    if (here && place == 0) write_params(to.params + number * 4, fits ? group.params : not_finite());
    EightCodes codes[quad_eights];
    if (to.draws) {
      const QuadDraws draws(to.key(), own, lane);
#pragma unroll
      for (int k = 0; k < quad_eights; ++k)
        codes[k] = encoded(values[k], line_of(group), to.bits, [&](int i) { return draws(k, i); });
    } else {
#pragma unroll
      for (int k = 0; k < quad_eights; ++k)
        codes[k] = encoded(values[k], line_of(group), to.bits, [](int) { return half_step; });
    }
    store_quad(to.codes + own * (code_block / 8 * to.bits), to.bits, lane, codes, here);
  }
};

bool in_quads(const AffineCodes& to) {
  return to.row == to.count && to.size > 0 && to.size <= warp_size * 8 * quad_eights && to.size % code_block == 0 &&
         to.count % to.size == 0 && reinterpret_cast<std::uintptr_t>(to.codes) % 8 == 0;
}

// Minimum and maximum of whole numbers that other blocks change too. The order does not matter.

LACUNA_DEVICE inline void lower(std::int32_t* to, std::int32_t key) {
#ifdef __CUDACC__
  if (key < *static_cast<volatile std::int32_t*>(to)) atomicMin(to, key);
#else
  std::int32_t was = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (key < was && !__atomic_compare_exchange_n(to, &was, key, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}
LACUNA_DEVICE inline void raise(std::int32_t* to, std::int32_t key) {
#ifdef __CUDACC__
  if (key > *static_cast<volatile std::int32_t*>(to)) atomicMax(to, key);
#else
  std::int32_t was = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (key > was && !__atomic_compare_exchange_n(to, &was, key, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

struct ClearObserved {
  static constexpr int threads = 256;
  ObservedKeys* observed;
  std::int64_t groups;
  LACUNA_DEVICE void operator()(const Block<ClearObserved>& block) const {
    if (block.global_thread() < groups) observed[block.global_thread()] = nothing_observed();
  }
};

/// A thread has each `step`-th eight elements: of the same columns, if it can be so.
template <class T>
struct Observe {
  static constexpr int threads = 256;
  Kept<T> x;
  AffineCodes to;
  Groups groups;
  ObservedKeys* observed;
  std::int64_t step;  // eights

  LACUNA_DEVICE void operator()(const Block<Observe>& block) const {
    if (block.global_thread() >= step) return;
    ObservedKeys own = nothing_observed();
    std::int64_t group = -1;
    for (std::int64_t first = block.global_thread() * 8; first < to.count; first += step * 8) {
      const Eight values = x.at(first);
      if (groups.in_eights) {
        if (const std::int64_t now = groups.group_of(first); now != group) {
          flush(group, own);
          group = now;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (first + i < to.count) add(own, values[i]);
        continue;
      }
      GroupWalk walk(groups, first);
      for (int i = 0; i < 8 && first + i < to.count; ++i) {
        if (i > 0) walk.next();
        if (walk.group() != group) {
          flush(group, own);
          group = walk.group();
        }
        add(own, values[i]);
      }
    }
    flush(group, own);
  }

 private:
  LACUNA_DEVICE void flush(std::int64_t group, ObservedKeys& own) const {
    if (group < 0) return;
    ObservedKeys& all = observed[group];
    lower(&all.min, own.min);
    raise(&all.max, own.max);
    lower(&all.finite_min, own.finite_min);
    raise(&all.finite_max, own.finite_max);
    own = nothing_observed();
  }
};

/// A thread a group.
struct FitGroups {
  static constexpr int threads = 256;
  QuantizeInTwoPasses what;
  quant::GroupFitter fitter;

  LACUNA_DEVICE void operator()(const Block<FitGroups>& block) const {
    const std::int64_t group = block.global_thread();
    if (group >= what.to.groups) return;
    const ObservedKeys observed = what.observed[group];
    float low = value_of(observed.min), high = value_of(observed.max);
    const bool finite = is_finite(low) && is_finite(high);
    if (what.seen != nullptr && observed.finite_min <= observed.finite_max) {
      what.seen[2 * group] = value_of(observed.finite_min);
      what.seen[2 * group + 1] = value_of(observed.finite_max);
    }
    if (what.known != nullptr) {
      low = what.known[2 * group];
      high = what.known[2 * group + 1];
    }
    const bool encodes = finite || (what.known != nullptr && what.encodes_not_finite);
    const quant::FittedGroup own = fitter.fit(encodes ? low : 0.0F, encodes ? high : 0.0F);
    what.lines[group] = line_of(own);
    write_params(what.to.params + group * 4, finite ? own.params : not_finite());
  }
};

/// Encodes by lines that are known.
template <class T>
struct EncodeTile {
  static constexpr int threads = tile_threads;
  struct Shared {
    alignas(16) std::uint8_t codes[tile_elements];
  };
  Kept<T> x;
  AffineCodes to;
  Groups groups;
  const EncodingLine* lines;  // [groups]

  LACUNA_DEVICE void operator()(const Block<EncodeTile>& block) const {
    const std::int64_t tile = block.index() * tile_elements, left = to.count - tile;
    const int count = left < tile_elements ? static_cast<int>(left) : tile_elements, at = block.thread() * 8;
    EightCodes words{};
    if (at < count) {
      const Eight values = x.at(tile + at);
      words = groups.in_eights ? encode(values, lines[groups.group_of(tile + at)], tile + at, to)
                               : encode_across_groups(values, tile + at);
    }
    write_codes(block, block.shared().codes, words, count, to.bits, to.codes + tile / 8 * to.bits);
  }

 private:
  LACUNA_DEVICE EightCodes encode_across_groups(const Eight& values, std::int64_t first) const {
    const quant::EightDraws draws(to.key(), first);
    GroupWalk walk(groups, first);
    EncodingLine line = lines[walk.group()];
    EightCodes words{};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i > 0 && walk.next()) line = lines[walk.group()];
      words[i / 4] |= sum_of(values[i], line, to.bits, to.draws ? draws[i] : half_step) >> 16 << (i % 4 * 8);
    }
    return words;
  }
};

/// Elements of a tile of whole groups and whole packed blocks; 0 if there is none.
int elements_of_tile(const AffineCodes& codes) {
  if (codes.row != codes.count || codes.size % 8 != 0 || codes.size > tile_elements) return 0;
  std::int64_t unit = codes.size;
  while (unit % code_block != 0) unit *= 2;  // 128 is a power of two
  return static_cast<int>(tile_elements / unit * unit);
}

/// Eights from one that a thread observes to its next: whole rows, if that leaves work for all of a GPU, so that it
/// sees the same groups.
std::int64_t observing_step(const AffineCodes& to) {
  constexpr std::int64_t wanted = 1 << 16;
  const std::int64_t eights = divide_up(to.count, 8);
  std::int64_t rows = to.row;  // a multiple of 8 elements
  while (rows % 8 != 0) rows *= 2;
  rows /= 8;
  return rows >= wanted ? std::int64_t{wanted} : divide_up(wanted < eights ? wanted : eights, rows) * rows;
}

/// The least power of two that is not below `wanted`; at most a warp.
int lanes_for(std::int64_t wanted) {
  int lanes = 1;
  while (lanes < warp_size && lanes < wanted) lanes *= 2;
  return lanes;
}

}  // namespace

bool quantizes_in_one_pass(const AffineCodes& codes) { return elements_of_tile(codes) > 0; }

void quantize_in_one_pass(Stream stream, DType type, const void* x, const AffineCodes& to) {
  if (in_quads(to))
    return with_cuda_type(type, [&]<class T>(Type<T>) {
      const auto blocks = static_cast<int>(to.size / code_block), lanes = lanes_for(blocks * quad_lanes);
      run(stream, divide_up(to.count / to.size * lanes, QuantizeQuads<T>::threads),
          QuantizeQuads<T>{.x = Kept<T>(x, to.count),
                           .to = to,
                           .fitter = quant::GroupFitter(to.bits),
                           .blocks_per_group = blocks,
                           .lanes_per_group = lanes});
    });
  const int elements = elements_of_tile(to), lanes = lanes_for(to.size / 8);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(to.count, elements),
        QuantizeTile<T>{.x = Kept<T>(x, to.count),
                        .to = to,
                        .fitter = quant::GroupFitter(to.bits),
                        .by_size = Divisor(to.size),
                        .elements = elements,
                        .lanes_per_group = lanes,
                        .within_warps = lanes * 8 == to.size});
  });
}

void quantize_in_two_passes(Stream stream, DType type, const QuantizeInTwoPasses& what) {
  const AffineCodes& to = what.to;
  run(stream, divide_up(to.groups, ClearObserved::threads), ClearObserved{what.observed, to.groups});
  with_cuda_type(type, [&]<class T>(Type<T>) {
    const Kept<T> x(what.x, to.count);
    const std::int64_t step = observing_step(to);
    run(stream, divide_up(step, Observe<T>::threads),
        Observe<T>{.x = x, .to = to, .groups = Groups(to), .observed = what.observed, .step = step});
    run(stream, divide_up(to.groups, FitGroups::threads), FitGroups{what, quant::GroupFitter(to.bits)});
    run(stream, divide_up(to.count, tile_elements),
        EncodeTile<T>{.x = x, .to = to, .groups = Groups(to), .lines = what.lines});
  });
}

}  // namespace lacuna::cuda
