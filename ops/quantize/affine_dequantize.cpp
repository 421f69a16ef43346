#include "ops/quantize/affine_dequantize.h"

#include "core/parallel.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/bit_planes.h"
#include "ops/quantize/column_groups.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/workspace.h"

#include <algorithm>
#include <optional>

namespace lacuna::quant {
namespace {

/// The line by which the codes of a group are decoded.
struct DecodingLine {
  Line<double> exact;
  Line<float> floats;
  bool clamps;  // some values may exceed the finite range
};

template <class T>
DecodingLine decoding_line(const Layout& from, std::int64_t group, bool dithered) {
  const Scale scale = scale_of(from.group(group), from.bits);
  const Line<double> line{scale.origin, scale.step}, exact = dithered ? dithered_line<double>(line) : line;
  return {
      exact, {static_cast<float>(exact.origin), static_cast<float>(exact.factor)}, may_overflow<T>(scale, from.bits)};
}

/// Lines of column groups, which are read again for every row.
struct DecodingTables {
  DecodingTables(ArrayCutter& cutter, std::int64_t groups, std::int64_t columns, bool by_column)
      : lines(cutter.cut<DecodingLine>(groups)) {
    if (by_column) column_lines.emplace(cutter, columns);
  }

  DecodingLine* lines;                      // [groups]
  std::optional<ColumnLines> column_lines;  // [columns]
};

/// Decodes blocks of affine codes. The tables are computed once.
template <class T>
class AffineDequantizer {
 public:
  explicit AffineDequantizer(const QuantizedTensor& quantized)
      : from_(quantized.shape, quantized.config, quantized.bytes.raw()),
        bytes_(quantized.bytes),
        dithered_(rounding_of(quantized.config) == Rounding::dithered),
        draws_(quantized.key, rounding_of(quantized.config)) {
    if (from_.kind != Grouping::Kind::columns) return;
    const std::int64_t groups = (from_.columns + from_.size - 1) / from_.size;
    // Wide groups without dither are faster piece by piece: nothing is loaded but codes. So are long rows, whose lines
    // do not stay in cache.
    constexpr std::int64_t max_columns = 8192;
    by_column_ = (dithered_ || from_.size < narrow_columns_undithered) && from_.columns <= max_columns;
    workspace_ = workspace_for<DecodingTables>(bytes_.device(), groups, from_.columns, by_column_);
    ArrayCutter cutter(workspace_.raw());
    tables_.emplace(cutter, groups, from_.columns, by_column_);
    if (bytes_.device() == Device::meta) return;
    bool clamps = false;
    for (std::int64_t group = 0; group < groups; ++group) {
      tables_->lines[group] = decoding_line<T>(from_, group, dithered_);
      clamps |= tables_->lines[group].clamps;
    }
    by_column_ &= !clamps;
    if (by_column_)
      tables_->column_lines->fill(from_, [&](std::int64_t group) { return tables_->lines[group].floats; });
  }

  /// Decodes elements [begin, end) into `out` on the calling thread.
  void decode(std::int64_t begin, std::int64_t end, T* out) const {
    Draws draws = draws_;
    alignas(64) std::uint8_t codes[pack_chunk];
    for (std::int64_t i = begin / block * block; i < end; i += pack_chunk) {
      const std::int64_t first = std::max(begin, i), last = std::min(end, i + pack_chunk);
      const std::uint8_t* const unpacked = from_.packs() ? codes : from_.block_at(i);
      if (from_.packs()) unpack_blocks(from_.block_at(i), from_.block_end_of(last) - i, from_.bits, codes);
      if (by_column_)
        decode_columns(first, last, draws, unpacked + (first - i), out + (first - begin));
      else
        decode_pieces(first, last, draws, unpacked + (first - i), out + (first - begin));
    }
  }

 private:
  // Elements [first, last). `codes`, `out`: [last - first].

  void decode_columns(std::int64_t first, std::int64_t last, Draws& draws, const std::uint8_t* codes, T* out) const {
    for_blocks(
        first, last, [&](std::int64_t i, std::int64_t next) __attribute__((always_inline)) {
          const std::uint16_t* const own = dithered_ ? draws.of_block(i / block).data() + i % block : nullptr;
          decode_piece(codes + (i - first), next - i, tables_->column_lines->from(i), own, out + (i - first));
        });
  }
  void decode_pieces(std::int64_t first, std::int64_t last, Draws& draws, const std::uint8_t* codes, T* out) const {
    const std::uint16_t* block_draws = nullptr;
    std::int64_t drawn_block = -1;
    from_.for_pieces(
        first, last, [&](std::int64_t group, std::int64_t i, std::int64_t next) __attribute__((always_inline)) {
          const DecodingLine line = tables_ ? tables_->lines[group] : decoding_line<T>(from_, group, dithered_);
          for (std::int64_t stop; i < next; i = stop) {
            stop = dithered_ ? std::min(next, (i / block + 1) * block) : next;
            if (dithered_ && drawn_block != i / block) {
              drawn_block = i / block;
              block_draws = draws.of_block(drawn_block).data();
            }
            const std::uint16_t* const own = dithered_ ? block_draws + i % block : nullptr;
            if (line.clamps)
              decode_clamped(codes + (i - first), stop - i, line.exact, own, out + (i - first));
            else
              decode_piece(codes + (i - first), stop - i, SharedLine{line.floats}, own, out + (i - first));
          }
        });
  }
  /// All arrays: [count]; `draws` is null without dither.
  template <class Lines>
  [[gnu::always_inline]] static inline void decode_piece(const std::uint8_t* codes, std::int64_t count, Lines lines,
                                                         const std::uint16_t* draws, T* out) {
    if (draws != nullptr)
      with_count(
          count, [&](std::int64_t number)
                     __attribute__((always_inline)) { Decoder<true, Lines>{lines}(codes, number, draws, out); });
    else
      with_count(
          count, [&](std::int64_t number)
                     __attribute__((always_inline)) { Decoder<false, Lines>{lines}(codes, number, nullptr, out); });
  }

  Layout from_;
  Tensor bytes_;
  bool dithered_, by_column_ = false;
  Draws draws_;
  Tensor workspace_;                      // of the tables
  std::optional<DecodingTables> tables_;  // of column groups
};

}  // namespace

void dequantize_affine(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out) {
  with_float_type(out.dtype(), [&]<class T>(Type<T>) {
    const AffineDequantizer<T> dequantizer(quantized);
    if (out.device() == Device::meta) return;
    T* const to = out.data<T>();
    const std::int64_t start = begin / block * block;
    parallel_for(
        end - start, serial_below,
        [&](std::int64_t share_begin, std::int64_t share_end) {
          const std::int64_t first = std::max(begin, start + share_begin);
          dequantizer.decode(first, start + share_end, to + (first - begin));
        },
        block);
  });
}

BlockDequantizer affine_block_dequantizer(const QuantizedTensor& quantized) {
  return with_float_type(quantized.dtype, [&]<class T>(Type<T>) -> BlockDequantizer {
    return [dequantizer = AffineDequantizer<T>(quantized)](std::int64_t begin, std::int64_t end, std::byte* out,
                                                           std::int64_t) {
      dequantizer.decode(begin, end, reinterpret_cast<T*>(out));
    };
  });
}

}  // namespace lacuna::quant
