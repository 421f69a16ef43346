#include "ops/cuda/elements.h"
#include "ops/quantize/code_quads.h"
#include "ops/quantize/group_walk.h"

namespace lacuna::cuda {
namespace {

template <class T>
struct Dequantize {
  static constexpr int threads = 256;
  AffineCodes from;
  Groups groups;
  PackedCodes codes;
  Written<T> out;
  std::int64_t begin, end;

  LACUNA_DEVICE void operator()(const Block<Dequantize>& block) const {
    const std::int64_t first = begin / 8 * 8 + block.global_thread() * 8;
    if (first >= end) return;
    Eight eight;
    read_codes(codes, first, from.key, from.dithered, eight.values);
    if (groups.in_eights) {
      decode<T>(line_of(groups.group_of(first)), eight.values);
    } else {
      GroupWalk walk(groups, first);
      DecodingLine line = line_of(walk.group());
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i > 0 && walk.next()) line = line_of(walk.group());
        eight[i] = decoded<T>(eight[i], line);
      }
    }
    if (begin % 8 == 0) return out.set(first - begin, eight);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (first + i >= begin && first + i < end) out.set_one(first + i - begin, eight[i]);
  }

 private:
  LACUNA_DEVICE DecodingLine line_of(std::int64_t group) const {
    return {from.params + group * 4, from.bits, from.dithered};
  }
};

/// Whole blocks of one group each: a thread has 32 elements.
template <class T>
struct DequantizeQuads {
  static constexpr int threads = 256;
  AffineCodes from;
  Divisor blocks_per_group;
  T* out;  // [blocks · 128], from block `first` on
  std::int64_t first, blocks;

  LACUNA_DEVICE void operator()(const Block<DequantizeQuads>& block) const {
    const std::int64_t own = block.global_thread() / quad_lanes, at = first + own;
    const int lane = block.thread() % quad_lanes;
    if (own >= blocks) return;
    EightCodes codes[quad_eights];
    load_quad(from.codes + at * (code_block / 8 * from.bits), from.bits, lane, codes);
    const DecodingLine line(from.params + blocks_per_group.quotient(at) * 4, from.bits, from.dithered);
    T* const to = out + own * code_block + lane * 8;
    if (from.dithered) {
      const QuadDraws draws(from.key(), at, lane);
      write(codes, line, to, [&](std::uint32_t code, int k, int i) { return less_draw(code, draws(k, i)); });
    } else {
      write(codes, line, to, [](std::uint32_t code, int, int) { return static_cast<float>(code); });
    }
  }

 private:
  template <class F>
  LACUNA_DEVICE static void write(const EightCodes (&codes)[quad_eights], const DecodingLine& line, T* to,
                                  const F& number) {
#pragma unroll
    for (int k = 0; k < quad_eights; ++k) {
      Eight eight;
#pragma unroll
      for (int i = 0; i < 8; ++i) eight[i] = number(codes[k][i / 4] >> (i % 4 * 8) & 0xffU, k, i);
      decode<T>(line, eight.values);
      store_eight(to + 32 * k, eight);
    }
  }
};

/// Whether elements [begin, end) are whole blocks of one group each.
bool in_quads(const AffineCodes& from, std::int64_t begin, std::int64_t end, const void* out) {
  return from.row == from.count && from.size % code_block == 0 && begin % code_block == 0 && end % code_block == 0 &&
         reinterpret_cast<std::uintptr_t>(from.codes) % 8 == 0 && is_aligned(out);
}

}  // namespace

void dequantize_affine(Stream stream, DType type, const AffineCodes& from, std::int64_t begin, std::int64_t end,
                       void* out) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    if (const std::int64_t blocks = (end - begin) / code_block; in_quads(from, begin, end, out))
      return run(stream, divide_up(blocks * quad_lanes, DequantizeQuads<T>::threads),
                 DequantizeQuads<T>{.from = from,
                                    .blocks_per_group = Divisor(from.size / code_block),
                                    .out = static_cast<T*>(out),
                                    .first = begin / code_block,
                                    .blocks = blocks});
    run(stream, divide_up(end - begin / 8 * 8, 8 * Dequantize<T>::threads),
        Dequantize<T>{.from = from,
                      .groups = Groups(from),
                      .codes = PackedCodes(from.codes, from.count, from.bits),
                      .out = Written<T>(out, end - begin),
                      .begin = begin,
                      .end = end});
  });
}

}  // namespace lacuna::cuda
