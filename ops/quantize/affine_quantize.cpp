#include "ops/quantize/affine_quantize.h"

#include "core/parallel.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/bit_planes.h"
#include "ops/quantize/column_groups.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/workspace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

namespace lacuna::quant {
namespace {

/// Range of the finite values of a group that holds others too.
class FiniteRange {
 public:
  template <class T>
  void add(T value) {
    const float v = to_f32(value);
    if (!std::isfinite(v)) return;
    range_ = {std::min(range_.min, v), std::max(range_.max, v)};
  }
  /// Leaves `to` as it is if no value was finite.
  void write(Range& to) const {
    if (range_.min <= range_.max) to = range_;
  }

 private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();
  Range range_{infinity, -infinity};
};

template <class T>
[[gnu::always_inline]] inline void encode_piece(const T* values, std::int64_t count, const EncodingLine& line, int bits,
                                                const std::uint16_t* draws, std::uint8_t* codes) {
  const SharedLine shared{{line.origin, line.factor}};
  if (line.scale != 1)
    Encoder<ScaledLine>({shared, line.scale}, bits)(values, count, draws, codes);
  else
    with_count(
        count, [&](std::int64_t number)
                   __attribute__((always_inline)) { Encoder<SharedLine>(shared, bits)(values, number, draws, codes); });
}

/// Encodes consecutive elements from the start of a block on: draws, codes, and packing of `pack_chunk` codes at a
/// time.
class BlockEncoder {
 public:
  BlockEncoder(const Layout& to, const QuantConfig& config, std::uint64_t key, std::int64_t begin)
      : draws_(key, rounding_of(config)), to_(to), first_(begin) {}

  /// Encodes elements [begin, end), which belong to one group.
  template <class T>
  [[gnu::always_inline]] inline void encode(const T* x, std::int64_t begin, std::int64_t end,
                                            const EncodingLine& line) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t next = std::min(end, i - i % block + block);
      const std::uint16_t* const draws = draws_from(i);  // first: it may pack, which moves the place of the codes
      encode_piece(x + i, next - i, line, to_.bits, draws, codes_at(i));
      i = next;
    }
  }
  /// Encodes elements [begin, end), which lie in one block.
  template <class T>
  [[gnu::always_inline]] inline void encode(const T* x, std::int64_t begin, std::int64_t end,
                                            const ColumnLines& lines) {
    const std::uint16_t* const draws = draws_from(begin);
    with_count(
        end - begin, [&](std::int64_t count) __attribute__((always_inline)) {
          Encoder<ElementLines>(lines.from(begin), to_.bits)(x + begin, count, draws, codes_at(begin));
        });
  }
  /// Packs what is not packed yet of the elements before `end`.
  void pack(std::int64_t end) {
    if (to_.packs()) pack_row(codes_, end - first_, to_.bits, to_.block_at(first_));
    first_ = end;
  }

 private:
  /// Draws of an element and of those behind it in its block.
  [[gnu::always_inline]] inline const std::uint16_t* draws_from(std::int64_t element) {
    const std::int64_t place = element % block;
    if (place == 0) {
      if (element - first_ == pack_chunk) pack(element);
      block_draws_ = draws_.of_block(element / block).data();
    }
    return block_draws_ + place;
  }
  std::uint8_t* codes_at(std::int64_t element) {
    return to_.packs() ? codes_ + (element - first_) : to_.codes + element;
  }

  Draws draws_;
  alignas(64) std::uint8_t codes_[pack_chunk];
  const Layout& to_;
  std::int64_t first_;                          // element of the first code that is not packed
  const std::uint16_t* block_draws_ = nullptr;  // [block]
};

/// Observed range of a group with values that are not finite.
template <class T>
void write_finite(const T* values, std::int64_t count, Range& seen) {
  FiniteRange finite;
  for (std::int64_t i = 0; i < count; ++i) finite.add(values[i]);
  finite.write(seen);
}

/// Consecutive groups. A group that two threads share is observed by both.
template <class T>
void quantize_consecutive(const T* x, const Layout& to, const QuantConfig& config, std::uint64_t key,
                          const KnownRanges* known) {
  constexpr std::int64_t cached = 4096;  // elements: as many groups at once as stay in L1
  const std::int64_t together = std::clamp<std::int64_t>(cached / to.size, 1, GroupBatch::max_groups);
  const ParamFitter fitter(to.bits);
  const auto encode_part = [&](std::int64_t begin, std::int64_t end) {
    BlockEncoder encoder(to, config, key, begin);
    // [groups], an array per number as in GroupBatch.
    std::array<Key<T>, GroupBatch::max_groups> mins, maxs;
    std::array<bool, GroupBatch::max_groups> finite;
    GroupBatch batch;
    for (std::int64_t from = begin / to.size; from * to.size < end; from += together) {
      const auto groups = static_cast<std::size_t>(std::min(together, (end - 1) / to.size + 1 - from));
      const auto first = [&](std::size_t g) { return (from + static_cast<std::int64_t>(g)) * to.size; };
      const auto count = [&](std::size_t g) { return std::min(to.size, to.count - first(g)); };
      for (std::size_t g = 0; g < groups; ++g) {
        MinMax<T> min_max;
        min_max.add(x + first(g), count(g));
        mins[g] = min_max.min();
        maxs[g] = min_max.max();
      }
      for (std::size_t g = 0; g < groups; ++g) {
        const auto group = static_cast<std::size_t>(from) + g;
        const Observed own = observed_between<T>(mins[g], maxs[g]);
        finite[g] = own.finite;
        batch.set(g, !own.finite ? Range{} : known == nullptr ? own.range : known->ranges[group]);
        if (known == nullptr || known->seen.empty() || first(g) < begin) continue;
        if (own.finite)
          known->seen[group] = own.range;
        else
          write_finite(x + first(g), count(g), known->seen[group]);
      }
      fitter.fit(batch);
      for (std::size_t g = 0; g < groups; ++g)
        if (first(g) >= begin)
          to.set_group(from + static_cast<std::int64_t>(g), finite[g] ? batch.params(g) : not_finite());
      for (std::size_t g = 0; g < groups; ++g) {
        encoder.encode(x, std::max(begin, first(g)), std::min(end, first(g) + to.size), batch.encoding_line(g));
        const std::int64_t next = first(g) + together * to.size;
        if (next < end) prefetch(x, next, std::min(end, next + std::min(to.size, cached)));
      }
    }
    encoder.pack(end);
  };
  parallel_for(to.count, serial_below, encode_part, block);
}

/// Scratch of column groups: of all threads, and of each of `parts` threads.
template <class T>
struct ColumnArrays {
  ColumnArrays(ArrayCutter& cutter, std::int64_t groups, std::int64_t columns, std::int64_t parts, bool narrow)
      : observed(cutter.cut<Observed>(groups)),
        lines(cutter.cut<EncodingLine>(groups)),
        finite(cutter.cut<FiniteRange>(groups)),
        min_max(cutter.cut<MinMax<T>>(parts * groups)),
        column_lines(cutter, narrow ? columns : 0),
        by_column(cutter.cut<ColumnMinMax<T>>(narrow ? parts : 0)) {
    for (std::int64_t part = 0; narrow && part < parts; ++part) {
      const ColumnMinMax<T> own(cutter, columns);
      if (by_column != nullptr) std::construct_at(by_column + part, own);
    }
    if (min_max != nullptr) std::uninitialized_default_construct_n(min_max, parts * groups);
  }

  Observed* observed;          // [groups]
  EncodingLine* lines;         // [groups]
  FiniteRange* finite;         // [groups]
  MinMax<T>* min_max;          // [parts, groups]
  ColumnLines column_lines;    // [columns], if groups are narrow
  ColumnMinMax<T>* by_column;  // [parts], if groups are narrow
};

/// Encodes the elements of `share`, and observes them unless `min_max` is null.
template <class T>
[[gnu::noinline]] void encode_by_columns(const T* x, const lacuna::Range& share, const ColumnLines& lines,
                                         BlockEncoder& encoder, ColumnMinMax<T>* min_max) {
  for_blocks(share.begin, share.end, [&](std::int64_t begin, std::int64_t end) {
    if (min_max != nullptr) min_max->add(x, begin, end);
    encoder.encode(x, begin, end, lines);
  });
}

/// Column groups. Wide groups are encoded piece by piece, with the group's line in registers, narrow ones by column.
template <class T>
class ColumnQuantizer {
 public:
  ColumnQuantizer(const T* x, const Layout& to, std::int64_t groups, std::int64_t parts, bool narrow,
                  const ColumnArrays<T>& arrays)
      : x_(x), to_(to), groups_(groups), parts_(parts), narrow_(narrow), arrays_(arrays) {}

  void quantize(const QuantConfig& config, std::uint64_t key, const KnownRanges* known) {
    if (known == nullptr) {
      observe_all();
      combine_observed();
      fit_groups();
      encode(config, key, false);
      return;
    }
    for (std::int64_t group = 0; group < groups_; ++group)
      arrays_.observed[group] = {known->ranges[static_cast<std::size_t>(group)], true};
    fit_groups();
    encode(config, key, true);
    combine_observed();
    bool all_finite = true;
    for (std::int64_t group = 0; group < groups_; ++group) {
      const Observed& observed = arrays_.observed[group];
      all_finite &= observed.finite;
      if (!observed.finite)
        to_.set_group(group, not_finite());
      else if (!known->seen.empty())
        known->seen[static_cast<std::size_t>(group)] = observed.range;
    }
    if (!all_finite && !known->seen.empty()) write_finite_ranges(known->seen);
  }

 private:
  /// Observes all groups in one pass over x.
  void observe_all() {
    for_shares([&](std::int64_t part, const lacuna::Range& share) {
      if (!narrow_) {
        to_.for_pieces(share.begin, share.end, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
          observe_piece(part, group, begin, end);
        });
        return;
      }
      ColumnMinMax<T>& columns = arrays_.by_column[part];
      columns.clear();
      for_blocks(share.begin, share.end, [&](std::int64_t begin, std::int64_t end) { columns.add(x_, begin, end); });
      add_columns(part, columns);
    });
  }
  /// Encodes x by the groups' lines in one pass, and observes it in the same pass if `observes`.
  void encode(const QuantConfig& config, std::uint64_t key, bool observes) {
    const EncodingLine* const group_lines = arrays_.lines;
    const bool by_columns = narrow_ && std::all_of(group_lines, group_lines + groups_,
                                                   [](const EncodingLine& line) { return line.scale == 1; });
    if (by_columns)
      arrays_.column_lines.fill(to_, [&](std::int64_t group) -> Line<float> {
        return {group_lines[group].origin, group_lines[group].factor};
      });
    for_shares([&](std::int64_t part, const lacuna::Range& share) {
      BlockEncoder encoder(to_, config, key, share.begin);
      if (by_columns) {
        ColumnMinMax<T>* const columns = observes ? arrays_.by_column + part : nullptr;
        if (observes) columns->clear();
        encode_by_columns(x_, share, arrays_.column_lines, encoder, columns);
        if (observes) add_columns(part, *columns);
      } else {
        to_.for_pieces(share.begin, share.end, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
          // A piece may be the whole share: what is observed is encoded while it is in L1.
          for (std::int64_t next; begin < end; begin = next) {
            next = std::min(end, begin + pack_chunk);
            if (observes) observe_piece(part, group, begin, next);
            prefetch(x_, next, std::min(end, next + pack_chunk));
            encoder.encode(x_, begin, next, group_lines[group]);
          }
        });
      }
      encoder.pack(share.end);
    });
  }
  /// Combines what all threads have observed.
  void combine_observed() {
    for (std::int64_t group = 0; group < groups_; ++group) {
      MinMax<T> min_max = arrays_.min_max[group];
      for (std::int64_t i = group + groups_; i < parts_ * groups_; i += groups_) min_max.add(arrays_.min_max[i]);
      arrays_.observed[group] = min_max.observed();
    }
  }
  /// Computes the lines of all groups from `observed`, and writes their parameters.
  void fit_groups() {
    const ParamFitter fitter(to_.bits);
    constexpr auto together = static_cast<std::int64_t>(GroupBatch::max_groups);
    GroupBatch batch;
    for (std::int64_t from = 0; from < groups_; from += together) {
      const std::int64_t some = std::min(groups_ - from, together);
      for (std::int64_t g = 0; g < some; ++g) {
        const Observed& own = arrays_.observed[from + g];
        batch.set(static_cast<std::size_t>(g), own.finite ? own.range : Range{});
      }
      fitter.fit(batch);
      for (std::int64_t g = 0; g < some; ++g) {
        const auto place = static_cast<std::size_t>(g);
        to_.set_group(from + g, arrays_.observed[from + g].finite ? batch.params(place) : not_finite());
        arrays_.lines[from + g] = batch.encoding_line(place);
      }
    }
  }
  /// Ranges of the finite values of groups that hold others too: one more pass over x.
  void write_finite_ranges(std::span<Range> seen) {
    std::fill_n(arrays_.finite, groups_, FiniteRange());
    to_.for_pieces(0, to_.count, [&](std::int64_t group, std::int64_t i, std::int64_t next) {
      if (!arrays_.observed[group].finite)
        for (; i < next; ++i) arrays_.finite[group].add(x_[i]);
    });
    for (std::int64_t group = 0; group < groups_; ++group)
      arrays_.finite[group].write(seen[static_cast<std::size_t>(group)]);
  }

  template <class F>
  void for_shares(const F& f) const {
    parallel_tasks(parts_, [&](std::int64_t index, std::int64_t) { f(index, part(to_.count, index, parts_, block)); });
  }
  [[gnu::always_inline]] inline void observe_piece(std::int64_t part, std::int64_t group, std::int64_t begin,
                                                   std::int64_t end) {
    with_count(end - begin,
               [&](std::int64_t number) { arrays_.min_max[part * groups_ + group].add(x_ + begin, number); });
  }
  void add_columns(std::int64_t part, const ColumnMinMax<T>& columns) {
    columns.for_all([&](std::int64_t column, Key<T> min, Key<T> max) {
      arrays_.min_max[part * groups_ + column / to_.size].add(min, max);
    });
  }

  const T* x_;
  const Layout& to_;
  std::int64_t groups_, parts_;  // parts: one per thread
  bool narrow_;
  ColumnArrays<T> arrays_;
};

template <class T>
void quantize_columns(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) {
  const Layout layout(x.shape(), quantized.config, quantized.bytes.raw());
  const std::int64_t groups = group_count(x.shape(), quantized.config.grouping),
                     parts = layout.count < serial_below ? 1 : threads();
  const bool narrow = layout.size < narrow_columns;
  const Tensor workspace = workspace_for<ColumnArrays<T>>(x.device(), groups, layout.columns, parts, narrow);
  if (x.device() == Device::meta) return;
  ArrayCutter cutter(workspace.raw());
  const ColumnArrays<T> arrays(cutter, groups, layout.columns, parts, narrow);
  ColumnQuantizer<T>(x.data<T>(), layout, groups, parts, narrow, arrays)
      .quantize(quantized.config, quantized.key, known);
}

}  // namespace

void quantize_affine(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known) {
  const QuantConfig& config = quantized.config;
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    if (config.grouping.kind == Grouping::Kind::columns) return quantize_columns<T>(x, quantized, known);
    if (x.device() == Device::meta) return;
    quantize_consecutive(x.data<T>(), Layout(x.shape(), config, quantized.bytes.raw()), config, quantized.key, known);
  });
}

}  // namespace lacuna::quant
