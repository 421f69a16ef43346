#include "ops/quantize/affine_encoding.h"

#include "core/parallel.h"
#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/columns.h"
#include "ops/quantize/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

namespace lacuna::quant {
namespace {

/// The finite values of a group that holds others too.
template <class T>
class FiniteRange {
 public:
  void add(T value) {
    const float v = to_coded(value);
    if (!std::isfinite(v)) return;
    range_ = range_ ? Range{std::min(range_->min, v), std::max(range_->max, v)} : Range{v, v};
  }
  void write(Range& to) const {
    if (range_) to = *range_;
  }

 private:
  std::optional<Range> range_;
};

template <class T>
[[gnu::always_inline]] inline void code_slice(const T* values, std::int64_t count, const EncodingLine& line, int bits,
                                              const std::uint16_t* draws, std::uint8_t* codes) {
  if (line.wide)
    Encoder<double, SameLine<double>>({line.exact}, bits)(values, count, draws, codes);
  else
    with_count(
        count, [&](std::int64_t number) __attribute__((always_inline)) {
          Encoder<float, SameLine<float>>({line.floats}, bits)(values, number, draws, codes);
        });
}

/// Draws for consecutive elements, from a block's first on, codes them, and packs the codes many at a time.
class BlockEncoder {
 public:
  BlockEncoder(const Layout& to, const QuantConfig& coding, std::uint64_t key, std::int64_t begin)
      : draws_(key, coding.rounding), to_(to), first_(begin) {}

  /// QuantizedTensor elements [begin, end), of one group.
  template <class T>
  [[gnu::always_inline]] inline void encode(const T* x, std::int64_t begin, std::int64_t end,
                                            const EncodingLine& line) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t next = std::min(end, i - i % block + block);
      const std::uint16_t* const draws = drawn(i);  // first: it may pack, and codes go to the front again
      code_slice(x + i, next - i, line, to_.bits, draws, codes_of(i));
      i = next;
    }
  }
  /// QuantizedTensor elements [begin, end), of one block.
  template <class T>
  [[gnu::always_inline]] inline void encode(const T* x, std::int64_t begin, std::int64_t end,
                                            const ColumnLines& lines) {
    const std::uint16_t* const draws = drawn(begin);
    with_count(
        end - begin, [&](std::int64_t count) __attribute__((always_inline)) {
          Encoder<float, OwnLines>(lines.from(begin), to_.bits)(x + begin, count, draws, codes_of(begin));
        });
  }
  /// Packs what is not packed yet of the elements before `end`.
  void pack(std::int64_t end) {
    if (to_.packs()) pack_row(codes_, end - first_, to_.bits, to_.block_at(first_));
    first_ = end;
  }

 private:
  /// The draws of an element and of those behind it in its block.
  [[gnu::always_inline]] inline const std::uint16_t* drawn(std::int64_t element) {
    const std::int64_t place = element % block;
    if (place == 0) {
      if (element - first_ == codes_together) pack(element);
      drawn_ = draws_.of_block(element / block).data();
    }
    return drawn_ + place;
  }
  std::uint8_t* codes_of(std::int64_t element) {
    return to_.packs() ? codes_ + (element - first_) : to_.codes + element;
  }

  Draws draws_;
  alignas(64) std::uint8_t codes_[codes_together];
  const Layout& to_;
  std::int64_t first_;                    // the element of the first code that is not packed
  const std::uint16_t* drawn_ = nullptr;  // [block]
};

/// What a group with values that are not finite has seen.
template <class T>
void write_finite(const T* values, std::int64_t count, Range& seen) {
  FiniteRange<T> finite;
  for (std::int64_t i = 0; i < count; ++i) finite.add(values[i]);
  finite.write(seen);
}

/// Groups that are runs. A group that two threads share is measured by both.
template <class T>
void encode_runs(const T* x, const Layout& to, const QuantConfig& coding, std::uint64_t key, const KnownRanges* known) {
  // Several groups at once, as many as stay in the first cache.
  constexpr std::int64_t cached = 4096;  // elements
  const std::int64_t together = std::clamp<std::int64_t>(cached / to.size, 1, GroupBatch::most);
  const Fitting fitting(to.bits);
  const auto encode_part = [&](std::int64_t begin, std::int64_t end) {
    BlockEncoder encoder(to, coding, key, begin);
    // All [groups]; an array for each, as in GroupBatch.
    std::array<Key<T>, GroupBatch::most> least, most;
    std::array<bool, GroupBatch::most> finite;
    GroupBatch batch;
    for (std::int64_t from = begin / to.size; from * to.size < end; from += together) {
      const auto groups = static_cast<std::size_t>(std::min(together, (end - 1) / to.size + 1 - from));
      const auto first = [&](std::size_t g) { return (from + static_cast<std::int64_t>(g)) * to.size; };
      const auto count = [&](std::size_t g) { return std::min(to.size, to.count - first(g)); };
      for (std::size_t g = 0; g < groups; ++g) {
        Extremes<T> extremes;
        extremes.add(x + first(g), count(g));
        least[g] = extremes.least();
        most[g] = extremes.most();
      }
      for (std::size_t g = 0; g < groups; ++g) {
        const auto group = static_cast<std::size_t>(from) + g;
        const Found here = found_between<T>(least[g], most[g]);
        finite[g] = here.finite;
        batch.set(g, !here.finite ? Range{} : known == nullptr ? here.range : known->ranges[group]);
        if (known == nullptr || known->seen.empty() || first(g) < begin) continue;
        if (here.finite)
          known->seen[group] = here.range;
        else
          write_finite(x + first(g), count(g), known->seen[group]);
      }
      fitting.fit(batch);
      for (std::size_t g = 0; g < groups; ++g)
        if (first(g) >= begin)
          to.set_group(from + static_cast<std::int64_t>(g), finite[g] ? batch.stored(g) : not_finite());
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

/// QuantizedTensor the elements of `share`, and measures them where there are `extremes`.
template <class T>
[[gnu::noinline]] void encode_by_columns(const T* x, const lacuna::Range& share, const ColumnLines& lines,
                                         BlockEncoder& encoder, std::optional<ColumnExtremes<T>>& extremes) {
  for_blocks(share.begin, share.end, [&](std::int64_t begin, std::int64_t end) {
    if (extremes) extremes->add(x, begin, end);
    encoder.encode(x, begin, end, lines);
  });
}

/// Groups that are columns: coded piece by piece, whose numbers stay in registers, or narrow ones column by column.
template <class T>
class ColumnGroups {
 public:
  ColumnGroups(const T* x, const Layout& to, std::size_t groups)
      : x_(x),
        to_(to),
        groups_(groups),
        parts_(to.count < serial_below ? 1 : threads()),
        narrow_(to.size < narrow_below),
        extremes_(static_cast<std::size_t>(parts_) * groups) {}

  /// One pass over x, which measures all groups.
  void measure() {
    for_shares([&](std::int64_t part, const lacuna::Range& share) {
      if (!narrow_) {
        to_.for_pieces(share.begin, share.end, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
          measure_piece(part, group, begin, end);
        });
        return;
      }
      ColumnExtremes<T> columns(to_.columns);
      for_blocks(share.begin, share.end, [&](std::int64_t begin, std::int64_t end) { columns.add(x_, begin, end); });
      add_columns(part, columns);
    });
  }
  /// One pass over x, which codes it by the groups' lines, and measures them too if it is to.
  void encode(const QuantConfig& coding, std::uint64_t key, const std::vector<EncodingLine>& group_lines,
              bool measures) {
    std::optional<ColumnLines> lines;
    if (narrow_ &&
        std::none_of(group_lines.begin(), group_lines.end(), [](const EncodingLine& line) { return line.wide; }))
      lines.emplace(to_, [&](std::int64_t group) { return group_lines[static_cast<std::size_t>(group)].floats; });
    for_shares([&](std::int64_t part, const lacuna::Range& share) {
      BlockEncoder encoder(to_, coding, key, share.begin);
      if (lines) {
        std::optional<ColumnExtremes<T>> columns;
        if (measures) columns.emplace(to_.columns);
        encode_by_columns(x_, share, *lines, encoder, columns);
        if (columns) add_columns(part, *columns);
      } else {
        to_.for_pieces(share.begin, share.end, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
          // A piece may be all of the share: what is measured is coded while it is in the first cache.
          for (std::int64_t next; begin < end; begin = next) {
            next = std::min(end, begin + codes_together);
            if (measures) measure_piece(part, group, begin, next);
            prefetch(x_, next, std::min(end, next + codes_together));
            encoder.encode(x_, begin, next, group_lines[static_cast<std::size_t>(group)]);
          }
        });
      }
      encoder.pack(share.end);
    });
  }
  /// What was measured, [groups].
  std::vector<Found> found() const {
    std::vector<Found> all;
    for (std::size_t group = 0; group < groups_; ++group) {
      Extremes<T> extremes = extremes_[group];
      for (std::size_t i = group + groups_; i < extremes_.size(); i += groups_) extremes.add(extremes_[i]);
      all.push_back(extremes.found());
    }
    return all;
  }
  /// The ranges of the finite values of the groups that hold others too: one more pass over x for all of them.
  void write_finite(const std::vector<Found>& found, std::span<Range> seen) const {
    std::vector<FiniteRange<T>> ranges(groups_);
    to_.for_pieces(0, to_.count, [&](std::int64_t group, std::int64_t i, std::int64_t next) {
      const auto at = static_cast<std::size_t>(group);
      if (!found[at].finite)
        for (; i < next; ++i) ranges[at].add(x_[i]);
    });
    for (std::size_t group = 0; group < groups_; ++group) ranges[group].write(seen[group]);
  }

 private:
  template <class F>
  void for_shares(const F& f) const {
    parallel_tasks(parts_, [&](std::int64_t index, std::int64_t) { f(index, part(to_.count, index, parts_, block)); });
  }
  Extremes<T>& extremes_of(std::int64_t part, std::int64_t group) {
    return extremes_[static_cast<std::size_t>(part) * groups_ + static_cast<std::size_t>(group)];
  }
  [[gnu::always_inline]] inline void measure_piece(std::int64_t part, std::int64_t group, std::int64_t begin,
                                                   std::int64_t end) {
    with_count(end - begin, [&](std::int64_t number) { extremes_of(part, group).add(x_ + begin, number); });
  }
  void add_columns(std::int64_t part, const ColumnExtremes<T>& columns) {
    columns.for_all(
        [&](std::int64_t column, Key<T> least, Key<T> most) { extremes_of(part, column / to_.size).add(least, most); });
  }

  const T* x_;
  const Layout& to_;
  std::size_t groups_;
  std::int64_t parts_;  // one a thread
  bool narrow_;
  std::vector<Extremes<T>> extremes_;  // [parts, groups]
};

/// Writes what is kept of each group; returns their lines.
std::vector<EncodingLine> fit_groups(const std::vector<Found>& found, const Layout& to) {
  const Fitting fitting(to.bits);
  std::vector<EncodingLine> group_lines;
  GroupBatch batch;
  for (std::size_t from = 0; from < found.size(); from += GroupBatch::most) {
    const std::size_t some = std::min(found.size() - from, GroupBatch::most);
    for (std::size_t g = 0; g < some; ++g) {
      const Found& own = found[from + g];
      batch.set(g, own.finite ? own.range : Range{});
    }
    fitting.fit(batch);
    for (std::size_t g = 0; g < some; ++g) {
      to.set_group(static_cast<std::int64_t>(from + g), found[from + g].finite ? batch.stored(g) : not_finite());
      group_lines.push_back(batch.encoding_line(g));
    }
  }
  return group_lines;
}

template <class T>
void encode_columns(const T* x, const Layout& to, const QuantConfig& coding, std::uint64_t key,
                    const KnownRanges* known, std::size_t groups) {
  ColumnGroups<T> columns(x, to, groups);
  if (known == nullptr) {
    columns.measure();
    columns.encode(coding, key, fit_groups(columns.found(), to), false);
    return;
  }
  std::vector<Found> given;
  for (const Range& range : known->ranges) given.push_back({range, true});
  columns.encode(coding, key, fit_groups(given, to), true);
  const std::vector<Found> found = columns.found();
  bool all_finite = true;
  for (std::size_t group = 0; group < groups; ++group) {
    all_finite &= found[group].finite;
    if (!found[group].finite)
      to.set_group(static_cast<std::int64_t>(group), not_finite());
    else if (!known->seen.empty())
      known->seen[group] = found[group].range;
  }
  if (!all_finite && !known->seen.empty()) columns.write_finite(found, known->seen);
}

}  // namespace

void encode_affine(const Tensor& x, const QuantizedTensor& codes, const KnownRanges* known) {
  const QuantConfig& coding = codes.coding;
  const auto groups = static_cast<std::size_t>(group_count(x.shape(), coding.grouping));
  launch(x.device(), [&] {
    const Layout layout(x.shape(), coding, codes.bytes.raw());
    with_float_type(x.dtype(), [&]<class T>(Type<T>) {
      if (coding.grouping.kind == Grouping::Kind::run)
        encode_runs(x.data<T>(), layout, coding, codes.key, known);
      else
        encode_columns(x.data<T>(), layout, coding, codes.key, known, groups);
    });
  });
}

}  // namespace lacuna::quant
