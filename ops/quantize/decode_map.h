// Kernels that decode affine codes and store what a map makes of the values, for .cu files.
#pragma once

#include "ops/cuda/elements.h"
#include "ops/quantize/code_quads.h"

namespace lacuna::cuda {

/// The map of dequantization: the values are stored as they are.
struct AsDecoded {
  LACUNA_DEVICE Eight operator()(const Eight& values, std::int64_t) const { return values; }
};

/// The map of ReLU by signs: a value whose bit is set, or NaN, stays; others become 0.
struct Rectified {
  const std::uint8_t* signs;  // bits from the first value on

  LACUNA_DEVICE Eight operator()(Eight values, std::int64_t element) const {
    const std::uint32_t bits = signs[element / 8];
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = (bits >> i & 1U) != 0 || values[i] != values[i] ? values[i] : 0.0F;
    return values;
  }
};

/// A lane's part of a quad, of a block of one group: its codes are read at once, and decoded eight at a time.
template <class T>
class QuadValues {
 public:
  LACUNA_DEVICE QuadValues(const SavedValues& from, const Divisor& blocks_per_group, std::int64_t block, int lane)
      : line_(from.params + blocks_per_group.quotient(block) * 4, from.bits, from.dithered), dithered_(from.dithered) {
    load_quad(from.codes + block * (code_block / 8 * from.bits), from.bits, lane, codes_);
    if (dithered_) draws_ = QuadDraws(from.key(), block, lane);
  }
  /// Elements 8 lane + 32 k + i of the block, i < 8; T may still round them.
  LACUNA_DEVICE Eight eight(int k) const {
    Eight eight;
    const auto code = [&](int i) { return codes_[k][i / 4] >> (i % 4 * 8) & 0xffU; };
    if (dithered_) {
#pragma unroll
      for (int i = 0; i < 8; ++i) eight[i] = less_draw(code(i), draws_(k, i));
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) eight[i] = static_cast<float>(code(i));
    }
    decode<T>(line_, eight.values);
    return eight;
  }

 private:
  EightCodes codes_[quad_eights];
  DecodingLine line_;
  QuadDraws draws_{};
  bool dithered_;
};

/// Whole blocks of one group each: a thread has 32 elements.
template <class T, class Map>
struct DecodeQuads {
  static constexpr int threads = 256;
  SavedValues from;
  Divisor blocks_per_group;
  Map map;
  T* out;  // [blocks · 128], from block `first` on
  std::int64_t first, blocks;

  LACUNA_DEVICE void operator()(const Block<DecodeQuads>& block) const {
    const std::int64_t own = block.global_thread() / quad_lanes;
    const int lane = block.thread() % quad_lanes;
    if (own >= blocks) return;
    const QuadValues<T> values(from, blocks_per_group, first + own, lane);
#pragma unroll
    for (int k = 0; k < quad_eights; ++k) {
      const std::int64_t to = own * code_block + lane * 8 + 32 * k;
      Eight eight = values.eight(k);
      if constexpr (!std::is_same_v<Map, AsDecoded>) eight = rounded_to<T>(eight);
      store_eight(out + to, map(eight, to));
    }
  }
};

/// Eight elements a thread, from any multiple of 8 on.
template <class T, class Map>
struct DecodeEights {
  static constexpr int threads = 256;
  Coded<T> codes;
  Map map;
  Written<T> out;
  std::int64_t first, count;

  LACUNA_DEVICE void operator()(const Block<DecodeEights>& block) const {
    const std::int64_t at = block.global_thread() * 8;
    if (at < count) out.set(at, map(codes.at(first + at), at));
  }
};

/// Whether elements [begin, end) are whole blocks of one group each.
inline bool in_quads(const SavedValues& from, std::int64_t begin, std::int64_t end, const void* out) {
  return from.group % code_block == 0 && begin % code_block == 0 && end % code_block == 0 &&
         reinterpret_cast<std::uintptr_t>(from.codes) % 8 == 0 && is_aligned(out);
}
template <class T, class Map>
void decode_quads(Stream stream, const SavedValues& from, std::int64_t begin, std::int64_t end, T* out,
                  const Map& map) {
  const std::int64_t blocks = (end - begin) / code_block;
  run(stream, divide_up(blocks * quad_lanes, DecodeQuads<T, Map>::threads),
      DecodeQuads<T, Map>{.from = from,
                          .blocks_per_group = Divisor(from.group / code_block),
                          .map = map,
                          .out = out,
                          .first = begin / code_block,
                          .blocks = blocks});
}

/// y[i] = map(eight values, i) for each eighth i: of the elements of `x`, from the first on. y: [x.count] of `type`.
template <class Map>
void map_codes(Stream stream, DType type, const CodedRange& x, const Map& map, void* y) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    if (in_quads(x.codes, x.begin, x.begin + x.count, y))
      return decode_quads(stream, x.codes, x.begin, x.begin + x.count, static_cast<T*>(y), map);
    run(stream, divide_up(x.count, 8 * DecodeEights<T, Map>::threads),
        DecodeEights<T, Map>{.codes = Coded<T>(x.codes, x.total),
                             .map = map,
                             .out = Written<T>(y, x.count),
                             .first = x.begin,
                             .count = x.count});
  });
}

}  // namespace lacuna::cuda
