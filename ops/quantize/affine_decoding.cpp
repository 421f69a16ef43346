// From codes to values, rotated ones too: what threads read together, and each by itself.
#include "core/parallel.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/coded_means.h"
#include "ops/quantize/columns.h"
#include "ops/quantize/layout.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace lacuna::quant {
namespace {

/// The samples to which the groups of elements [begin, end) belong.
lacuna::Range samples_of(const QuantizedTensor& codes, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = codes.coding.grouping.size, sample = codes.shape.count() / codes.shape.front(),
                     last = std::min(codes.shape.count(), (end + size - 1) / size * size);
  return {begin / size * size / sample, (last + sample - 1) / sample};
}

/// What the codes of a group become values with.
struct Reading {
  Line<double> exact;
  Line<float> by;
  bool held;  // some could be beyond what is finite
};

template <class T>
Reading reading_of(const Layout& from, std::int64_t group, bool dither) {
  const Scale scale = scale_of(from.group(group), from.bits);
  const Line<double> line{scale.origin, scale.step}, exact = dither ? dithered<double>(line) : line;
  return {exact, {static_cast<float>(exact.origin), static_cast<float>(exact.factor)}, beyond<T>(scale, from.bits)};
}

/// Decodes runs of codes that are not rotated, prepared once for many.
template <class T>
class GroupDecoder {
 public:
  explicit GroupDecoder(const QuantizedTensor& codes)
      : from_(codes.shape, codes.coding, codes.bytes.raw()),
        dithers_(codes.coding.rounding == Rounding::dithered),
        draws_(codes.key, codes.coding.rounding) {
    if (from_.kind != Grouping::Kind::column) return;
    bool held = false;
    for (std::int64_t group = 0; group * from_.size < from_.columns; ++group) {
      columns_.push_back(reading_of<T>(from_, group, dithers_));
      held |= columns_.back().held;
    }
    // Of wide groups whose codes stand for themselves the pieces are faster: nothing is loaded but codes.
    if (!held && (dithers_ || from_.size < narrow_plain))
      lines_.emplace(from_, [&](std::int64_t group) { return columns_[static_cast<std::size_t>(group)].by; });
  }

  /// Elements [begin, end) into `out`, on the calling thread.
  void decode(std::int64_t begin, std::int64_t end, T* out) const {
    Draws draws = draws_;
    alignas(64) std::uint8_t room[codes_together];
    for (std::int64_t i = begin / block * block; i < end; i += codes_together) {
      const std::int64_t first = std::max(begin, i), last = std::min(end, i + codes_together);
      const std::uint8_t* const unpacked = from_.packs() ? room : from_.block_at(i);
      if (from_.packs()) unpack_blocks(from_.block_at(i), from_.block_end_of(last) - i, from_.bits, room);
      if (lines_)
        decode_columns(first, last, draws, unpacked + (first - i), out + (first - begin));
      else
        decode_groups(first, last, draws, unpacked + (first - i), out + (first - begin));
    }
  }

 private:
  // Elements [first, last). `codes`, `out`: [last - first].

  void decode_columns(std::int64_t first, std::int64_t last, Draws& draws, const std::uint8_t* codes, T* out) const {
    for_blocks(
        first, last, [&](std::int64_t i, std::int64_t next) __attribute__((always_inline)) {
          const std::uint16_t* const drawn = dithers_ ? draws.of_block(i / block).data() + i % block : nullptr;
          to_values(codes + (i - first), next - i, lines_->from(i), drawn, out + (i - first));
        });
  }
  void decode_groups(std::int64_t first, std::int64_t last, Draws& draws, const std::uint8_t* codes, T* out) const {
    const std::uint16_t* drawn = nullptr;
    std::int64_t drawn_block = -1;
    from_.for_pieces(
        first, last, [&](std::int64_t group, std::int64_t i, std::int64_t next) __attribute__((always_inline)) {
          const Reading reading =
              columns_.empty() ? reading_of<T>(from_, group, dithers_) : columns_[static_cast<std::size_t>(group)];
          for (std::int64_t stop; i < next; i = stop) {
            stop = dithers_ ? std::min(next, (i / block + 1) * block) : next;
            if (dithers_ && drawn_block != i / block) {
              drawn_block = i / block;
              drawn = draws.of_block(drawn_block).data();
            }
            const std::uint16_t* const piece_drawn = dithers_ ? drawn + i % block : nullptr;
            if (reading.held)
              to_values_held(codes + (i - first), stop - i, reading.exact, piece_drawn, out + (i - first));
            else
              to_values(codes + (i - first), stop - i, SameLine<float>{reading.by}, piece_drawn, out + (i - first));
          }
        });
  }
  /// All: [count]; `draws`: null where codes stand for themselves.
  template <class Lines>
  [[gnu::always_inline]] static inline void to_values(const std::uint8_t* codes, std::int64_t count, Lines lines,
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
  bool dithers_;
  Draws draws_;
  std::vector<Reading> columns_;      // [groups], which every row asks for again; empty where groups are runs
  std::optional<ColumnLines> lines_;  // theirs, where all values are finite and it is faster to go by columns
};

}  // namespace

void decode(const QuantizedTensor& codes, std::int64_t begin, std::int64_t end, const Tensor& out) {
  expect(0 <= begin && begin <= end && end <= codes.shape.count(), "elements {} to {} of {} codes were asked for",
         begin, end, codes.shape.count());
  expect(out.count() == end - begin, "{} elements are to be decoded into {}, which has {}", end - begin, out.shape(),
         out.count());
  expect(out.dtype() == codes.dtype, "codes of {} are to be decoded into a tensor of {}; decode into their own type",
         name_of(codes.dtype), name_of(out.dtype()));
  if (begin == end) return;
  if (codes.coding.rounding == Rounding::hadamard) {
    const Tensor room = decoding_room(codes, end - begin);
    const QuantizedTensor coded = codes_of_means(codes);
    const std::int64_t columns = coded.shape.back(), size = codes.coding.grouping.size;
    const lacuna::Range samples = room.count() > 0 ? samples_of(codes, begin, end) : lacuna::Range{};
    const Tensor means = room.leading(0, samples.end - samples.begin);
    if (means.count() > 0) decode(coded, samples.begin * columns, samples.end * columns, means);
    launch(out.device(), [&] {
      const std::int64_t start = begin / size * size;
      parallel_for(
          end - start, serial_below,
          [&](std::int64_t share_begin, std::int64_t share_end) {
            const std::int64_t first = std::max(begin, start + share_begin);
            decode_hadamard(codes, first, start + share_end, numbers_of(means), samples.begin,
                            out.raw() + (first - begin) * size_of(codes.dtype));
          },
          size);
    });
    return;
  }
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      const GroupDecoder<T> decoder(codes);
      T* const to = out.data<T>();
      const std::int64_t start = begin / block * block;
      parallel_for(
          end - start, serial_below,
          [&](std::int64_t share_begin, std::int64_t share_end) {
            const std::int64_t first = std::max(begin, start + share_begin);
            decoder.decode(first, start + share_end, to + (first - begin));
          },
          block);
    });
  });
}

Tensor decoding_room(const QuantizedTensor& codes, std::int64_t count) {
  const Shape means = means_shape(codes.shape, codes.coding);
  if (means.count() == 0) return Tensor::empty(means, DType::f32, codes.bytes.device(), Purpose::workspace);
  // Of groups at both ends there may be parts, and so of samples.
  const std::int64_t sample = codes.shape.count() / codes.shape.front(),
                     touched = (count + 2 * codes.coding.grouping.size) / sample + 2;
  return Tensor::empty({std::min(means.front(), touched), means.back()}, DType::f32, codes.bytes.device(),
                       Purpose::workspace);
}

RangeDecoder range_decoder(const QuantizedTensor& codes) {
  if (codes.coding.rounding == Rounding::hadamard) {
    const QuantizedTensor coded = codes_of_means(codes);
    RangeDecoder decode_means = coded.shape.count() > 0 ? range_decoder(coded) : RangeDecoder();
    return [codes, columns = coded.shape.back(), decode_means = std::move(decode_means)](
               std::int64_t begin, std::int64_t end, std::byte* out) {
      lacuna::Range samples;
      std::vector<float> means;  // [samples, C]
      if (decode_means) {
        samples = samples_of(codes, begin, end);
        means.resize(static_cast<std::size_t>((samples.end - samples.begin) * columns));
        decode_means(samples.begin * columns, samples.end * columns, reinterpret_cast<std::byte*>(means.data()));
      }
      decode_hadamard(codes, begin, end, means, samples.begin, out);
    };
  }
  return with_float_type(codes.dtype, [&]<class T>(Type<T>) -> RangeDecoder {
    return [decoder = GroupDecoder<T>(codes)](std::int64_t begin, std::int64_t end, std::byte* out) {
      decoder.decode(begin, end, reinterpret_cast<T*>(out));
    };
  });
}

}  // namespace lacuna::quant
