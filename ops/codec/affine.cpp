#include "ops/codec/affine.h"

#include "core/parallel.h"
#include "ops/codec/affine_kernels.h"

#include <optional>
#include <vector>

namespace lacuna::codec {
namespace {

constexpr std::int64_t serial_below = 16384;  // elements

void expect_valid(const Coding& coding) {
  expect(coding.bits >= 1 && coding.bits <= 8, "codes of {} bits were asked for; 1 to 8 are possible", coding.bits);
  expect(coding.grouping.size >= 1, "a group has one element or more, not {}", coding.grouping.size);
}

std::int64_t code_bytes(std::int64_t count, int bits) {
  return count / block * packed_bytes(block, bits) + packed_bytes(count % block, bits);
}

/// Where the parts of a coded tensor lie.
struct Layout {
  Layout(const Shape& shape, const Coding& coding, std::byte* bytes)
      : bits(coding.bits),
        count(shape.count()),
        columns(shape.back()),
        size(coding.grouping.size),
        codes(reinterpret_cast<std::uint8_t*>(bytes)),
        stored(codes + code_bytes(count, bits)) {}

  std::uint8_t* block_at(std::int64_t element) const { return codes + element / block * packed_bytes(block, bits); }
  std::int64_t in_block(std::int64_t element) const { return std::min(block, count - element / block * block); }
  Stored group(std::int64_t index) const {
    Stored group;
    std::memcpy(&group, stored + index * stored_bytes, sizeof group);
    return group;
  }
  void set_group(std::int64_t index, Stored group) const {
    std::memcpy(stored + index * stored_bytes, &group, sizeof group);
  }
  /// Calls `f(group, first, last)` for the pieces of [begin, end) that belong to one group each, groups being runs.
  template <class F>
  void for_runs(std::int64_t begin, std::int64_t end, F&& f) const {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t last = std::min(end, (i / size + 1) * size);
      f(i / size, i, last);
      i = last;
    }
  }

  int bits;
  std::int64_t count, columns, size;  // elements, of a row, of a group
  std::uint8_t* codes;                // [code_bytes]
  std::uint8_t* stored;               // [groups, 4], at any address
};

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
void code_slice(const T* values, std::int64_t count, const Slope& slope, int bits, const std::uint16_t* draws,
                std::uint8_t* codes) {
  const Uniform<float> floats{static_cast<float>(slope.origin), static_cast<float>(slope.scale)};
  if (slope.wide)
    to_codes<double>(values, count, Uniform<double>{slope.origin, slope.scale}, bits, draws, codes);
  else
    with_count(count, [&](std::int64_t number) { to_codes<float>(values, number, floats, bits, draws, codes); });
}

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
  // Several groups at once, as many as stay in the first cache: their divisions overlap.
  constexpr std::int64_t most_together = 16;
  const std::int64_t together = std::clamp<std::int64_t>(4096 / to.size, 1, most_together);
  const Fitting fitting(to.bits);
  const auto encode_part = [&](std::int64_t begin, std::int64_t end) {
    Draws draws(key, coding.rounding);
    const std::uint16_t* drawn = nullptr;
    alignas(64) std::uint8_t codes[block] = {};
    std::array<Found, most_together> found;
    std::array<Slope, most_together> slopes;
    for (std::int64_t from = begin / to.size; from * to.size < end; from += together) {
      const std::int64_t groups = std::min(together, (end - 1) / to.size + 1 - from);
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t first = (from + g) * to.size;
        found[static_cast<std::size_t>(g)] = range_of(x + first, std::min(to.size, to.count - first));
      }
      for (std::int64_t g = 0; g < groups; ++g) {
        const Found& here = found[static_cast<std::size_t>(g)];
        const std::int64_t group = from + g, first = group * to.size;
        const Range range = known == nullptr ? here.range : known->ranges[static_cast<std::size_t>(group)];
        const Stored stored = here.finite ? fitting.fit(range) : not_finite();
        slopes[static_cast<std::size_t>(g)] = slope_of(stored, range, to.bits);
        if (first < begin) continue;
        to.set_group(group, stored);
        if (known == nullptr || known->seen.empty()) continue;
        Range& seen = known->seen[static_cast<std::size_t>(group)];
        if (here.finite)
          seen = here.range;
        else
          write_finite(x + first, std::min(to.size, to.count - first), seen);
      }
      for (std::int64_t g = 0; g < groups; ++g) {
        const Slope slope = slopes[static_cast<std::size_t>(g)];
        const std::int64_t last = std::min(end, (from + g + 1) * to.size);
        for (std::int64_t i = std::max(begin, (from + g) * to.size); i < last;) {
          const std::int64_t place = i % block, next = std::min(last, i - place + block);
          if (place == 0) drawn = draws.of_block(i / block).data();
          code_slice(x + i, next - i, slope, to.bits, drawn + place, codes + place);
          if (next % block == 0 || next == to.count) {
            const std::int64_t filled = next - (i - place);
            std::fill(codes + filled, codes + block, std::uint8_t{0});
            pack(codes, filled, to.bits, to.block_at(i));
          }
          i = next;
        }
      }
    }
  };
  parallel_for(to.count, serial_below, encode_part, block);
}

/// Tables by column for groups that are columns: the beginning is repeated behind the end, so that the columns of a
/// block lie one after the other wherever it begins.
std::int64_t table_length(const Shape& shape) { return shape.back() + block; }

/// Two values a column, as floats.
Each each_column(const Tensor& table, std::int64_t column) {
  const float* const first = table.data<float>() + column;
  return {first, first + table.shape().back()};
}

/// What a group codes or decodes with, looked up for every element: where floats do not do.
template <class Parameters>
struct LookedUp {
  std::span<const Parameters> groups;
  std::int64_t columns, size, first;
  const Parameters& at(std::int64_t i) const { return groups[static_cast<std::size_t>((first + i) % columns / size)]; }
  double origin(std::int64_t i) const { return at(i).origin; }
  double factor(std::int64_t i) const {
    if constexpr (std::is_same_v<Parameters, Slope>)
      return at(i).scale;
    else
      return at(i).step;
  }
};

/// The origins and factors of all groups, spread into a table [2, C + block].
template <class Parameters>
void spread(const Layout& layout, std::span<const Parameters> groups, const Tensor& table) {
  const LookedUp<Parameters> looked_up{groups, layout.columns, layout.size, 0};
  const std::int64_t length = table.shape().back();
  auto* const origins = table.data<float>();
  for (std::int64_t i = 0; i < length; ++i) {
    origins[i] = static_cast<float>(looked_up.origin(i));
    origins[length + i] = static_cast<float>(looked_up.factor(i));
  }
}

/// What each column was seen to hold.
class ColumnExtremes {
 public:
  ColumnExtremes(const Shape& shape, std::int64_t parts, Device device)
      : table_(Tensor::empty({parts, 2, table_length(shape)}, DType::i32, device, Purpose::workspace)) {}

  void reset() const {
    const std::int64_t length = table_.shape().back();
    for (std::int64_t part = 0; part < table_.shape().front(); ++part) {
      std::fill_n(of(part), length, std::numeric_limits<std::int32_t>::max());
      std::fill_n(of(part) + length, length, std::numeric_limits<std::int32_t>::min());
    }
  }
  template <class T>
  void add(std::int64_t part, const T* values, std::int64_t column, std::int64_t count) const {
    std::int32_t* const least = of(part) + column;
    std::int32_t* const most = least + table_.shape().back();
    with_count(count, [&](std::int64_t number) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < number; ++i) {
        const std::int32_t key = key_of(to_coded(values[i]));
        least[i] = std::min(least[i], key);
        most[i] = std::max(most[i], key);
      }
    });
  }
  std::vector<Found> by_group(const Layout& layout) const {
    const auto groups = static_cast<std::size_t>((layout.columns + layout.size - 1) / layout.size);
    std::vector<std::int32_t> least(groups, std::numeric_limits<std::int32_t>::max());
    std::vector<std::int32_t> most(groups, std::numeric_limits<std::int32_t>::min());
    const std::int64_t length = table_.shape().back();
    for (std::int64_t part = 0; part < table_.shape().front(); ++part)
      for (std::int64_t i = 0; i < length; ++i) {
        const auto group = static_cast<std::size_t>(i % layout.columns / layout.size);
        least[group] = std::min(least[group], of(part)[i]);
        most[group] = std::max(most[group], of(part)[length + i]);
      }
    std::vector<Found> found;
    for (std::size_t group = 0; group < groups; ++group)
      found.push_back(found_between<float>(least[group], most[group]));
    return found;
  }

 private:
  std::int32_t* of(std::int64_t part) const { return table_.data<std::int32_t>() + part * 2 * table_.shape().back(); }

  Tensor table_;  // [parts, 2, C + block]: keys of the least and the greatest
};

/// Calls `f(part, first, count)` for all blocks, shared among `parts` threads.
template <class F>
void for_blocks(const Layout& layout, std::int64_t parts, F&& f) {
  parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
    const lacuna::Range share = part(layout.count, index, parts, block);
    for (std::int64_t i = share.begin; i < share.end; i += block) f(index, i, layout.in_block(i));
  });
}

/// Groups that are columns. `table`: [2, C + block].
template <class T>
void encode_columns(const T* x, const Layout& to, const Coding& coding, std::uint64_t key, const Known* known,
                    const ColumnExtremes& extremes, std::int64_t parts, const Tensor& table) {
  extremes.reset();
  std::vector<Found> found;
  if (known == nullptr) {
    for_blocks(to, parts, [&](std::int64_t part, std::int64_t first, std::int64_t count) {
      extremes.add(part, x + first, first % to.columns, count);
    });
    found = extremes.by_group(to);
  } else {
    for (const Range& range : known->ranges) found.push_back({range, true});
  }
  const Fitting fitting(to.bits);
  std::vector<Slope> slopes;
  bool wide = false;
  for (std::size_t group = 0; group < found.size(); ++group) {
    const Stored stored = found[group].finite ? fitting.fit(found[group].range) : not_finite();
    to.set_group(static_cast<std::int64_t>(group), stored);
    slopes.push_back(slope_of(stored, found[group].range, to.bits));
    wide = wide || slopes.back().wide;
  }
  spread<Slope>(to, slopes, table);
  for_blocks(to, parts, [&](std::int64_t part, std::int64_t first, std::int64_t count) {
    const std::int64_t column = first % to.columns;
    if (known != nullptr) extremes.add(part, x + first, column, count);
    Draws draws(key, coding.rounding);
    const std::uint16_t* const drawn = draws.of_block(first / block).data();
    alignas(64) std::uint8_t codes[block] = {};
    if (wide)
      to_codes<double>(x + first, count, LookedUp<Slope>{slopes, to.columns, to.size, column}, to.bits, drawn, codes);
    else
      with_count(count, [&](std::int64_t number) {
        to_codes<float>(x + first, number, each_column(table, column), to.bits, drawn, codes);
      });
    pack(codes, count, to.bits, to.block_at(first));
  });
  if (known == nullptr) return;
  found = extremes.by_group(to);
  for (std::int64_t group = 0; group < static_cast<std::int64_t>(found.size()); ++group) {
    const Found& here = found[static_cast<std::size_t>(group)];
    if (!here.finite) to.set_group(group, not_finite());
    if (known->seen.empty()) continue;
    Range& seen = known->seen[static_cast<std::size_t>(group)];
    if (here.finite) {
      seen = here.range;
      continue;
    }
    FiniteRange<T> finite;
    for (std::int64_t i = 0; i < to.count; ++i)
      if (i % to.columns / to.size == group) finite.add(x[i]);
    finite.write(seen);
  }
}

Codes encode_with(const Tensor& x, const Coding& coding, std::uint64_t key, const Known* known) {
  expect_valid(coding);
  expect(is_floating(x.dtype()), "a tensor of {} was given to the codec; it codes floating types", name_of(x.dtype()));
  Codes codes{
      coding, x.shape(), x.dtype(),
      Tensor::empty({coded_bytes(x.shape(), coding)}, DType::u8, x.device(), AllocationScope::current().purpose)};
  if (x.count() == 0) return codes;
  if (coding.grouping.kind == Grouping::Kind::run) {
    launch(x.device(), [&] {
      const Layout layout(x.shape(), coding, codes.bytes.raw());
      with_float_type(x.dtype(), [&]<class T>(Type<T>) { encode_runs(x.data<T>(), layout, coding, key, known); });
    });
    return codes;
  }
  const std::int64_t parts = x.count() < serial_below ? 1 : threads();
  const ColumnExtremes extremes(x.shape(), parts, x.device());
  const Tensor table = Tensor::empty({2, table_length(x.shape())}, DType::f32, x.device(), Purpose::workspace);
  launch(x.device(), [&] {
    const Layout layout(x.shape(), coding, codes.bytes.raw());
    with_float_type(x.dtype(), [&]<class T>(Type<T>) {
      encode_columns(x.data<T>(), layout, coding, key, known, extremes, parts, table);
    });
  });
  return codes;
}

/// Unpacks the blocks of [begin, end) and calls `f(codes, first, last)` for what of each lies inside.
template <class F>
void for_unpacked(const Layout& from, std::int64_t begin, std::int64_t end, F&& f) {
  const std::int64_t start = begin / block * block;
  parallel_for(
      end - start, serial_below,
      [&](std::int64_t share_begin, std::int64_t share_end) {
        alignas(64) std::uint8_t codes[block];
        for (std::int64_t i = start + share_begin; i < start + share_end; i += block) {
          unpack(from.block_at(i), from.in_block(i), from.bits, codes);
          const std::int64_t first = std::max(begin, i);
          f(codes + (first - i), first, std::min(end, i + block));
        }
      },
      block);
}

template <class T>
void decode_runs(const Layout& from, std::int64_t begin, std::int64_t end, T* out) {
  for_unpacked(from, begin, end, [&](const std::uint8_t* codes, std::int64_t first, std::int64_t last) {
    from.for_runs(first, last, [&](std::int64_t group, std::int64_t i, std::int64_t next) {
      const Scale scale = scale_of(from.group(group), from.bits);
      const Uniform<float> floats{static_cast<float>(scale.origin), static_cast<float>(scale.step)};
      if (beyond<T>(scale, from.bits))
        to_values_held(codes + (i - first), next - i, Uniform<double>{scale.origin, scale.step}, out + (i - begin));
      else
        with_count(next - i,
                   [&](std::int64_t number) { to_values(codes + (i - first), number, floats, out + (i - begin)); });
    });
  });
}

/// `table`: [2, C + block].
template <class T>
void decode_columns(const Layout& from, std::int64_t begin, std::int64_t end, const Tensor& table, T* out) {
  std::vector<Scale> scales;
  bool held = false;
  for (std::int64_t group = 0; group * from.size < from.columns; ++group) {
    scales.push_back(scale_of(from.group(group), from.bits));
    held = held || beyond<T>(scales.back(), from.bits);
  }
  spread<Scale>(from, scales, table);
  for_unpacked(from, begin, end, [&](const std::uint8_t* codes, std::int64_t first, std::int64_t last) {
    const std::int64_t column = first % from.columns;
    if (held)
      to_values_held(codes, last - first, LookedUp<Scale>{scales, from.columns, from.size, column},
                     out + (first - begin));
    else
      with_count(last - first, [&](std::int64_t number) {
        to_values(codes, number, each_column(table, column), out + (first - begin));
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
  return code_bytes(shape.count(), coding.bits) + stored_bytes * group_count(shape, coding.grouping);
}

Codes encode(const Tensor& x, const Coding& coding, std::uint64_t key) { return encode_with(x, coding, key, nullptr); }

Codes encode(const Tensor& x, const Coding& coding, std::uint64_t key, std::span<const Range> ranges,
             std::span<Range> seen) {
  expect_valid(coding);
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

void decode(const Codes& codes, std::int64_t begin, std::int64_t end, const Tensor& out) {
  expect(0 <= begin && begin <= end && end <= codes.shape.count(), "elements {} to {} of {} codes were asked for",
         begin, end, codes.shape.count());
  expect(out.count() == end - begin, "{} elements are to be decoded into {}, which has {}", end - begin, out.shape(),
         out.count());
  expect(out.dtype() == codes.dtype, "codes of {} are to be decoded into a tensor of {}; decode into their own type",
         name_of(codes.dtype), name_of(out.dtype()));
  if (begin == end) return;
  Tensor table;
  if (codes.coding.grouping.kind == Grouping::Kind::column)
    table = Tensor::empty({2, table_length(codes.shape)}, DType::f32, out.device(), Purpose::workspace);
  launch(out.device(), [&] {
    const Layout layout(codes.shape, codes.coding, codes.bytes.raw());
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      if (table.defined())
        decode_columns(layout, begin, end, table, out.data<T>());
      else
        decode_runs(layout, begin, end, out.data<T>());
    });
  });
}

}  // namespace lacuna::codec
