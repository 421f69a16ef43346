// The mask of dropout for cuDNN's attention, and zeros in the rows of padding, which it leaves as they are.
#include "ops/attention/attention_tiles.h"
#include "ops/attention/dense_kernels.h"

namespace lacuna::cuda {
namespace {

/// A thread has `n` elements of a row.
template <class T, int n>
struct WriteMask {
  static constexpr int threads = 256;
  DropoutMask what;
  T* mask;

  LACUNA_DEVICE void operator()(const Block<WriteMask>& block) const {
    const std::int64_t at = block.global_thread() * n, row = at / what.keys;
    if (row >= what.samples * what.heads * what.queries) return;
    const std::int64_t query = row % what.queries, head = row / what.queries % what.heads;
    const auto sample = static_cast<std::uint64_t>(what.first + row / what.queries / what.heads);
    const std::int64_t element = (head * what.draw_rows + query) * what.draw_columns + (at - row * what.keys);
    const auto kept = [&](std::uint32_t drawn) { return static_cast<T>(drawn < what.dropped_below ? 0.0F : 1.0F); };
    Pack<T, n> pack;
    if (n % 4 == 0 && what.draw_columns % 4 == 0) {  // rows begin with a draw of four
      const RandomStream stream = what.stream.now();
#pragma unroll
      for (int i = 0; i + 4 <= n; i += 4) {
        const auto four = stream.draw_of_sample(sample, static_cast<std::uint32_t>((element + i) / 4));
#pragma unroll
        for (int k = 0; k < 4; ++k) pack[i + k] = kept(four[static_cast<std::size_t>(k)]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) pack[i] = kept(draw(what.stream, sample, element + i));
    }
    store_pack(mask + at, pack);
  }
};

/// A thread has eight elements of a row of padding.
struct ClearPadding {
  static constexpr int threads = 256;
  PaddingRows what;

  LACUNA_DEVICE void operator()(const Block<ClearPadding>& block) const {
    const std::int64_t chunks = what.width / 8, place = block.global_thread() / chunks,
                       column = block.global_thread() % chunks * 8, sample = place / what.padding;
    if (sample >= what.samples) return;
    const bool packed = what.offsets != nullptr;
    const std::int64_t first = packed ? what.offsets[sample] / what.offset_stride : sample * what.rows,
                       end = packed ? what.offsets[sample + 1] / what.offset_stride : first + what.rows,
                       row = first + what.lengths[sample] + place % what.padding;
    if (row < end) store_pack(static_cast<bf16*>(what.data) + row * what.stride + column, Pack<bf16, 8>{});
  }
};

}  // namespace

void write_mask(Stream stream, DType type, const DropoutMask& what, void* mask) {
  const std::int64_t count = what.samples * what.heads * what.queries * what.keys;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    if (what.keys % 8 == 0)
      run(stream, divide_up(count / 8, 256), WriteMask<T, 8>{what, static_cast<T*>(mask)});
    else
      run(stream, divide_up(count, 256), WriteMask<T, 1>{what, static_cast<T*>(mask)});
  });
}

void clear_padding(Stream stream, const PaddingRows& what) {
  const std::int64_t count = what.samples * what.padding * (what.width / 8);
  if (count > 0) run(stream, divide_up(count, ClearPadding::threads), ClearPadding{what});
}

}  // namespace lacuna::cuda
