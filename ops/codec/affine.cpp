#include "ops/codec/affine.h"

#include "core/parallel.h"
#include "ops/codec/affine_kernels.h"
#include "ops/codec/columns.h"
#include "ops/codec/layout.h"
#include "ops/codec/rotated.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace lacuna::codec {
namespace {

void expect_valid(const Coding& coding) {
  expect(coding.bits >= 1 && coding.bits <= 8, "codes of {} bits were asked for; 1 to 8 are possible", coding.bits);
  expect(coding.grouping.size >= 1, "a group has one element or more, not {}", coding.grouping.size);
  if (coding.rounding != Rounding::rotated) return;
  expect(coding.bits <= most_rotated_bits && coding.grouping.kind == Grouping::Kind::run &&
             coding.grouping.size <= longest_rotated_group,
         "rotated codes of {} bits in {} of {} were asked for; 1 to {} bits are possible, in runs of up to {}",
         coding.bits, coding.grouping.kind == Grouping::Kind::run ? "runs" : "columns", coding.grouping.size,
         most_rotated_bits, longest_rotated_group);
}

/// Ranges known beforehand, and where those go that were found.
struct Known {
  std::span<const Range> ranges;
  std::span<Range> seen;
};

/// The finite values of a group that holds others too.
template <class T>
class FiniteRange {
 public:
  void add(T value) {
    const float v = to_coded(value);
    if (!std::isfinite(v)) return;
    range_ = range_ ? Range{std::min(range_->least, v), std::max(range_->most, v)} : Range{v, v};
  }
  void write(Range& to) const {
    if (range_) to = *range_;
  }

 private:
  std::optional<Range> range_;
};

template <class T>
[[gnu::always_inline]] inline void code_slice(const T* values, std::int64_t count, const Slope& slope, int bits,
                                              const std::uint16_t* draws, std::uint8_t* codes) {
  if (slope.wide)
    Encoder<double>(slope.exact, bits)(values, count, draws, codes);
  else
    with_count(count, [&](std::int64_t number) { Encoder<float>(slope.floats, bits)(values, number, draws, codes); });
}

/// Elements whose groups are looked up and whose codes are packed together: whole blocks that stay in the first cache.
constexpr std::int64_t stretch = 16 * block;

/// Draws for consecutive elements, from a block's first on, codes them, and packs the codes a stretch at a time.
class BlockEncoder {
 public:
  BlockEncoder(const Layout& to, const Coding& coding, std::uint64_t key, std::int64_t begin)
      : draws_(key, coding.rounding), to_(to), first_(begin) {}

  /// Codes elements [begin, end), of one group.
  template <class T>
  [[gnu::always_inline]] inline void encode(const T* x, std::int64_t begin, std::int64_t end, const Slope& slope) {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t next = std::min(end, i - i % block + block);
      const std::uint16_t* const draws = drawn(i);  // first: it may pack, and codes go to the front again
      code_slice(x + i, next - i, slope, to_.bits, draws, codes_of(i));
      i = next;
    }
  }
  /// Codes elements [begin, end), of one block.
  template <class T>
  [[gnu::always_inline]] inline void encode(const T* x, std::int64_t begin, std::int64_t end,
                                            const ColumnLines& lines) {
    const std::uint16_t* const draws = drawn(begin);
    with_count(end - begin, [&](std::int64_t count) {
      ColumnEncoder(to_.bits)(x + begin, count, lines.from(begin), draws, codes_of(begin));
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
      if (element - first_ == stretch) pack(element);
      drawn_ = draws_.of_block(element / block).data();
    }
    return drawn_ + place;
  }
  std::uint8_t* codes_of(std::int64_t element) {
    return to_.packs() ? codes_ + (element - first_) : to_.codes + element;
  }

  Draws draws_;
  alignas(64) std::uint8_t codes_[stretch];
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
void encode_runs(const T* x, const Layout& to, const Coding& coding, std::uint64_t key, const Known* known) {
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
        encoder.encode(x, std::max(begin, first(g)), std::min(end, first(g) + to.size), batch.slope(g));
        const std::int64_t next = first(g) + together * to.size;
        if (next < end) prefetch(x, next, std::min(end, next + std::min(to.size, cached)));
      }
    }
    encoder.pack(end);
  };
  parallel_for(to.count, serial_below, encode_part, block);
}

/// Calls `f(begin, end)` for the parts of [begin, end) that lie in one block each.
template <class F>
[[gnu::always_inline]] inline void for_blocks(std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t next; begin < end; begin = next) {
    next = std::min(end, (begin / block + 1) * block);
    f(begin, next);
  }
}

/// Codes the elements of `share`, and measures them where there are `extremes`.
template <class T>
[[gnu::noinline]] void encode_by_columns(const T* x, const lacuna::Range& share, const ColumnLines& lines,
                                         BlockEncoder& encoder, std::optional<ColumnExtremes<T>>& extremes) {
  for_blocks(share.begin, share.end, [&](std::int64_t begin, std::int64_t end) {
    if (extremes) extremes->add(x, begin, end);
    encoder.encode(x, begin, end, lines);
  });
}

/// Groups that are columns: piece by piece, whose numbers stay in registers, or narrow ones column by column.
template <class T>
void encode_columns(const T* x, const Layout& to, const Coding& coding, std::uint64_t key, const Known* known,
                    std::size_t groups) {
  const std::int64_t parts = to.count < serial_below ? 1 : threads();
  std::vector<Extremes<T>> extremes(static_cast<std::size_t>(parts) * groups);  // [parts, groups]
  const auto extremes_of = [&](std::int64_t part, std::int64_t group) -> Extremes<T>& {
    return extremes[static_cast<std::size_t>(part) * groups + static_cast<std::size_t>(group)];
  };
  const auto measure_piece = [&](std::int64_t part, std::int64_t group, std::int64_t begin, std::int64_t end) {
    with_count(end - begin, [&](std::int64_t number) { extremes_of(part, group).add(x + begin, number); });
  };
  const auto add_columns = [&](std::int64_t part, const ColumnExtremes<T>& columns) {
    columns.for_all(
        [&](std::int64_t column, Key<T> least, Key<T> most) { extremes_of(part, column / to.size).add(least, most); });
  };
  const auto measured = [&] {
    for (std::size_t i = groups; i < extremes.size(); ++i) extremes[i % groups].add(extremes[i]);
    std::vector<Found> all;
    for (std::size_t group = 0; group < groups; ++group) all.push_back(extremes[group].found());
    return all;
  };
  const bool narrow = to.size < narrow_below;
  std::vector<Found> found;
  if (known == nullptr) {
    parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
      const lacuna::Range share = part(to.count, index, parts, block);
      if (!narrow) {
        to.for_pieces(share.begin, share.end, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
          measure_piece(index, group, begin, end);
        });
        return;
      }
      ColumnExtremes<T> columns(to.columns);
      for_blocks(share.begin, share.end, [&](std::int64_t begin, std::int64_t end) { columns.add(x, begin, end); });
      add_columns(index, columns);
    });
    found = measured();
  } else {
    for (const Range& range : known->ranges) found.push_back({range, true});
  }
  const Fitting fitting(to.bits);
  std::vector<Slope> slopes;  // [groups]
  GroupBatch batch;
  for (std::size_t from = 0; from < groups; from += GroupBatch::most) {
    const std::size_t some = std::min(groups - from, GroupBatch::most);
    for (std::size_t g = 0; g < some; ++g) {
      const Found& own = found[from + g];
      batch.set(g, own.finite ? own.range : Range{});
    }
    fitting.fit(batch);
    for (std::size_t g = 0; g < some; ++g) {
      to.set_group(static_cast<std::int64_t>(from + g), found[from + g].finite ? batch.stored(g) : not_finite());
      slopes.push_back(batch.slope(g));
    }
  }
  std::optional<ColumnLines> lines;
  if (narrow && std::none_of(slopes.begin(), slopes.end(), [](const Slope& slope) { return slope.wide; }))
    lines.emplace(to, [&](std::int64_t group) { return slopes[static_cast<std::size_t>(group)].floats; });
  parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
    const lacuna::Range share = part(to.count, index, parts, block);
    BlockEncoder encoder(to, coding, key, share.begin);
    if (lines) {
      std::optional<ColumnExtremes<T>> columns;
      if (known != nullptr) columns.emplace(to.columns);
      encode_by_columns(x, share, *lines, encoder, columns);
      if (columns) add_columns(index, *columns);
    } else {
      to.for_pieces(share.begin, share.end, [&](std::int64_t group, std::int64_t begin, std::int64_t end) {
        if (known != nullptr) measure_piece(index, group, begin, end);
        encoder.encode(x, begin, end, slopes[static_cast<std::size_t>(group)]);
      });
    }
    encoder.pack(share.end);
  });
  if (known == nullptr) return;
  found = measured();
  for (std::size_t group = 0; group < groups; ++group) {
    if (!found[group].finite) to.set_group(static_cast<std::int64_t>(group), not_finite());
    if (known->seen.empty()) continue;
    Range& seen = known->seen[group];
    if (found[group].finite) {
      seen = found[group].range;
      continue;
    }
    FiniteRange<T> finite;
    to.for_pieces(0, to.count, [&](std::int64_t at, std::int64_t i, std::int64_t next) {
      if (at == static_cast<std::int64_t>(group))
        for (; i < next; ++i) finite.add(x[i]);
    });
    finite.write(seen);
  }
}

/// The means of a rotated tensor's channels lie behind all else; in 8 bits, dithered by a key of their own.
Codes codes_of_means(const Codes& codes) {
  const Shape shape = means_shape(codes.shape, codes.coding);
  const Coding coding = least_error(8, {});
  const std::int64_t own = coded_bytes(shape, coding), all = codes.bytes.count();
  return {coding, shape, DType::f32, codes.bytes.reshape({all, 1}).leading(all - own, all).reshape({own}), ~codes.key};
}

/// Rotated codes. The means are found, coded behind where the codes of x will be, and taken off as they will be
/// decoded.
void encode_with_means(const Tensor& x, const Codes& codes) {
  const Codes coded = codes_of_means(codes);
  const AllocationScope scope({Purpose::workspace, {}, {}});
  const Tensor means = Tensor::empty(coded.shape, DType::f32, x.device(), Purpose::workspace);
  if (means.count() > 0) {
    launch(x.device(), [&] {
      find_means(x, means);
      const Layout layout(coded.shape, coded.coding, coded.bytes.raw());
      encode_runs(means.data<float>(), layout, coded.coding, coded.key, nullptr);
    });
    decode(coded, 0, means.count(), means);
  }
  launch(x.device(), [&] { encode_rotated(x, codes, means); });
}

/// Those of the samples to which the groups of elements [begin, end) belong.
Tensor decoded_means(const Codes& codes, std::int64_t begin, std::int64_t end) {
  const Codes coded = codes_of_means(codes);
  const std::int64_t samples = coded.shape.front(), columns = coded.shape.back(), size = codes.coding.grouping.size;
  if (samples == 0) return Tensor::empty({0, columns}, DType::f32, codes.bytes.device(), Purpose::workspace);
  const std::int64_t sample = codes.shape.count() / samples,
                     last = std::min(codes.shape.count(), (end + size - 1) / size * size),
                     from = begin / size * size / sample, to = (last + sample - 1) / sample;
  const Tensor means = Tensor::empty({to - from, columns}, DType::f32, codes.bytes.device(), Purpose::workspace);
  decode(coded, from * columns, to * columns, means);
  return means;
}

Codes encode_with(const Tensor& x, const Coding& coding, std::uint64_t key, const Known* known) {
  expect_valid(coding);
  expect(is_floating(x.dtype()), "a tensor of {} was given to the codec; it codes floating types", name_of(x.dtype()));
  Codes codes{
      coding, x.shape(), x.dtype(),
      Tensor::empty({coded_bytes(x.shape(), coding)}, DType::u8, x.device(), AllocationScope::current().purpose), key};
  if (x.count() == 0) return codes;
  if (coding.rounding == Rounding::rotated) {
    encode_with_means(x, codes);
    return codes;
  }
  const auto groups = static_cast<std::size_t>(group_count(x.shape(), coding.grouping));
  launch(x.device(), [&] {
    const Layout layout(x.shape(), coding, codes.bytes.raw());
    with_float_type(x.dtype(), [&]<class T>(Type<T>) {
      if (coding.grouping.kind == Grouping::Kind::run)
        encode_runs(x.data<T>(), layout, coding, key, known);
      else
        encode_columns(x.data<T>(), layout, coding, key, known, groups);
    });
  });
  return codes;
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
  explicit GroupDecoder(const Codes& codes)
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
    alignas(64) std::uint8_t room[stretch];
    for (std::int64_t i = begin / block * block; i < end; i += stretch) {
      const std::int64_t first = std::max(begin, i), last = std::min(end, i + stretch);
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
    for_blocks(first, last, [&](std::int64_t i, std::int64_t next) {
      const std::uint16_t* const drawn = dithers_ ? draws.of_block(i / block).data() + i % block : nullptr;
      to_values(codes + (i - first), next - i, lines_->from(i), drawn, out + (i - first));
    });
  }
  void decode_groups(std::int64_t first, std::int64_t last, Draws& draws, const std::uint8_t* codes, T* out) const {
    const std::uint16_t* drawn = nullptr;
    std::int64_t drawn_block = -1;
    from_.for_pieces(first, last, [&](std::int64_t group, std::int64_t i, std::int64_t next) {
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
          to_values(codes + (i - first), stop - i, SameLine{reading.by}, piece_drawn, out + (i - first));
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

/// Calls `f(variance, count, to)` for the runs of `out` whose errors have one variance.
template <class F>
void for_variances(const Codes& codes, std::int64_t begin, std::int64_t end, const Tensor& out, const F& f) {
  expect(0 <= begin && begin <= end && end <= codes.shape.count() && out.count() == end - begin,
         "the variance of elements {} to {} of {} codes was asked for, into {}", begin, end, codes.shape.count(),
         out.shape());
  expect(tells_variance(codes.coding), "only errors of dithered and rotated codes have a variance of their own");
  if (begin == end) return;
  launch(out.device(), [&] {
    const Layout layout(codes.shape, codes.coding, codes.bytes.raw());
    const bool rotated = codes.coding.rounding == Rounding::rotated;
    parallel_for(end - begin, serial_below, [&](std::int64_t first, std::int64_t last) {
      layout.for_pieces(begin + first, begin + last, [&](std::int64_t group, std::int64_t i, std::int64_t next) {
        const auto dithered_variance = [&] {
          return std::pow(scale_of(layout.group(group), layout.bits).step, 2) / 12;
        };
        const double found = rotated ? rotated_variance(layout, group) : dithered_variance();
        // A group that is not finite decodes to NaN, whatever is taken off.
        const double own =
            std::isfinite(found) ? std::min(found, static_cast<double>(std::numeric_limits<float>::max())) : 0;
        f(static_cast<float>(own), next - i, out.data<float>() + (i - begin));
      });
    });
  });
}

}  // namespace

std::int64_t group_count(const Shape& shape, const Grouping& grouping) {
  const std::int64_t count = shape.count();
  const std::int64_t grouped = grouping.kind == Grouping::Kind::run || count == 0 ? count : shape.back();
  return (grouped + grouping.size - 1) / grouping.size;
}

std::int64_t coded_bytes(const Shape& shape, const Coding& coding) {
  return packed_row_bytes(shape.count(), coding.bits) + range_bytes(shape, coding);
}

std::int64_t range_bytes(const Shape& shape, const Coding& coding) {
  const Shape means = means_shape(shape, coding);
  return stored_bytes * group_count(shape, coding.grouping) +
         (means.count() == 0 ? 0 : coded_bytes(means, least_error(8, {})));
}

// With more, the extremes of a normal distribution cost no more than what lies beyond the last step.
bool rotates(int bits) { return bits <= most_rotated_bits; }

double relative_error(int bits) {
  const double levels = static_cast<double>((1 << bits) - 1);
  return rotates(bits) ? rotated_error(bits) : 2.72 / (levels * levels);
}

Coding least_error(int bits, const Grouping& grouping) {
  const bool turned = rotates(bits) && grouping.kind == Grouping::Kind::run;
  return {.bits = bits, .grouping = grouping, .rounding = turned ? Rounding::rotated : Rounding::dithered};
}

Codes encode(const Tensor& x, const Coding& coding, std::uint64_t key) { return encode_with(x, coding, key, nullptr); }

Codes encode(const Tensor& x, const Coding& coding, std::uint64_t key, std::span<const Range> ranges,
             std::span<Range> seen) {
  expect_valid(coding);
  expect(coding.rounding != Rounding::rotated, "rotated codes have no ranges; {} were given", ranges.size());
  const auto groups = static_cast<std::size_t>(group_count(x.shape(), coding.grouping));
  expect(ranges.size() == groups, "{} ranges were given for the {} groups of {}", ranges.size(), groups, x.shape());
  expect(seen.empty() || seen.size() == groups, "room for {} ranges was given for the {} groups of {}", seen.size(),
         groups, x.shape());
  for (const Range& range : ranges)
    expect(std::isfinite(range.least) && std::isfinite(range.most) && range.least <= range.most,
           "the codec was given the range [{}, {}]; it takes finite ones, the least value first", range.least,
           range.most);
  const Known known{ranges, seen};
  return encode_with(x, coding, key, &known);
}

bool tells_variance(const Coding& coding) {
  return coding.rounding == Rounding::dithered || coding.rounding == Rounding::rotated;
}

void find_variance(const Codes& codes, std::int64_t begin, std::int64_t end, const Tensor& out) {
  for_variances(codes, begin, end, out, [](float own, std::int64_t count, float* to) { std::fill_n(to, count, own); });
}

void add_variance(const Codes& codes, std::int64_t begin, std::int64_t end, const Tensor& out) {
  for_variances(codes, begin, end, out, [](float own, std::int64_t count, float* to) {
    for (std::int64_t i = 0; i < count; ++i) to[i] += own;
  });
}

void decode(const Codes& codes, std::int64_t begin, std::int64_t end, const Tensor& out) {
  expect(0 <= begin && begin <= end && end <= codes.shape.count(), "elements {} to {} of {} codes were asked for",
         begin, end, codes.shape.count());
  expect(out.count() == end - begin, "{} elements are to be decoded into {}, which has {}", end - begin, out.shape(),
         out.count());
  expect(out.dtype() == codes.dtype, "codes of {} are to be decoded into a tensor of {}; decode into their own type",
         name_of(codes.dtype), name_of(out.dtype()));
  if (begin == end) return;
  if (codes.coding.rounding == Rounding::rotated) {
    const Tensor means = decoded_means(codes, begin, end);
    launch(out.device(), [&] { decode_rotated(codes, begin, end, out, means); });
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

RangeDecoder range_decoder(const Codes& codes) {
  expect(codes.coding.rounding != Rounding::rotated, "rotated codes of {} are decoded by `decode` alone", codes.shape);
  return with_float_type(codes.dtype, [&]<class T>(Type<T>) -> RangeDecoder {
    return [decoder = GroupDecoder<T>(codes)](std::int64_t begin, std::int64_t end, std::byte* out) {
      decoder.decode(begin, end, reinterpret_cast<T*>(out));
    };
  });
}

}  // namespace lacuna::codec
