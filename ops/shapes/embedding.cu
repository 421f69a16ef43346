#include "ops/shapes/embedding_cuda.h"

#include "ops/cuda/elements.h"

#include <bit>
#include <cmath>

namespace lacuna::cuda {
namespace {

/// The number of the lowest bit that is set; `bits` is not 0. std::countr_zero gives something else on a GPU.
LACUNA_DEVICE int lowest_bit(std::uint32_t bits) {
#ifdef __CUDACC__
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return std::countr_zero(bits);
#endif
}

/// A thread has eight elements of a row.
template <class Entry, class T>
struct LookUpRows {
  static constexpr int threads = 256;
  Kept<Entry> table;
  Kept<T> base;
  Written<T> y;
  const std::int64_t* ids;
  std::int64_t entries, rows, width;
  bool has_base;

  LACUNA_DEVICE void operator()(const Block<LookUpRows>& block) const {
    const std::int64_t chunks = (width + 7) / 8, row = block.global_thread() / chunks,
                       c = block.global_thread() % chunks * 8;
    if (row >= rows) return;
    const std::int64_t id = ids[row];
    const bool inside = 0 <= id && id < entries;
    Eight sum = has_base ? base.at_row(row, width, c) : Eight{};
    const Eight entry = inside ? table.at_row(id, width, c) : Eight{};
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = inside ? sum[i] + entry[i] : NAN;
    y.set_row(row, width, c, sum);
  }
};

LACUNA_DEVICE std::uint32_t bits_set(std::uint32_t bits) {
#ifdef __CUDACC__
  return static_cast<std::uint32_t>(__popc(bits));
#else
  return static_cast<std::uint32_t>(std::popcount(bits));
#endif
}

/// How many rows have the id of an entry, and how far from the end the first of them is.
struct FindRows {
  static constexpr int threads = 256;
  std::uint32_t* found;  // [2, entries], zeros
  const std::int64_t* ids;
  std::int64_t entries, rows;

  LACUNA_DEVICE void operator()(const Block<FindRows>& block) const {
    const std::int64_t row = block.global_thread();
    if (row >= rows) return;
    const std::int64_t id = ids[row];
    if (id < 0 || id >= entries) return;
    add_together(found + id, 1);
    raise_together(found + entries + id, static_cast<std::uint32_t>(rows - row));
  }
};

/// A block has an id and all of its rows, if it is the block of the first of them.
template <class Entry, class T>
struct AddRowsToTable {
  static constexpr int threads = 128;
  struct Shared {
    std::uint32_t matches[2][threads / warp_size];  // two sets in turn
  };
  Kept<T> dy;
  Written<Entry> table;
  const std::int64_t* ids;
  const std::uint32_t* found;  // by FindRows
  std::int64_t entries, rows, width, padding;

  /// Adds up to four of the rows that `left` names, in order; returns the rest. They are read together, since an id may
  /// have thousands.
  LACUNA_DEVICE std::uint32_t add_rows(std::uint32_t left, std::int64_t first, std::int64_t c, Eight& sum) const {
    constexpr int together = 4;
    Eight terms[together];
    bool is_there[together];
#pragma unroll
    for (int t = 0; t < together; ++t) {
      is_there[t] = left != 0;
      if (is_there[t]) terms[t] = dy.at_row(first + lowest_bit(left), width, c);
      left &= left - 1;  // 0 stays 0
    }
#pragma unroll
    for (int t = 0; t < together; ++t)
      if (is_there[t])
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += terms[t][i];
    return left;
  }
  LACUNA_DEVICE void operator()(const Block<AddRowsToTable>& block) const {
    const std::int64_t own = block.index(), id = ids[own];
    if (id == padding || id < 0 || id >= entries) return;
    if (rows - found[entries + id] != own) return;
    for (std::int64_t c0 = 0; c0 < width; c0 += threads * 8) {
      const std::int64_t c = c0 + block.thread() * 8;
      Eight sum = c < width ? table.at_row(id, width, c) : Eight{};
      int set = 0;
      std::uint32_t missing = found[id];
      for (std::int64_t first = own; missing != 0; first += threads, set ^= 1) {
        const std::int64_t candidate = first + block.thread();
        const std::uint32_t of_warp = ballot(candidate < rows && ids[candidate] == id);
        if (block.lane() == 0) block.shared().matches[set][block.warp()] = of_warp;
        block.sync();
        for (int w = 0; w < block.warps; ++w) {
          const std::uint32_t matches = block.shared().matches[set][w];
          missing -= bits_set(matches);
          if (c < width)
            for (std::uint32_t left = matches; left != 0;) left = add_rows(left, first + w * warp_size, c, sum);
        }
      }
      if (c < width) table.set_row(id, width, c, sum);
      block.sync();
    }
  }
};

/// A table of few entries, as of token types: a block sums the rows of a part for one entry.
template <class T>
struct SumRowsOfParts {
  static constexpr int threads = 128;
  Kept<T> dy;
  float* partial;  // [parts, entries, width]
  const std::int64_t* ids;
  std::int64_t entries, rows, rows_of_part, width, padding;

  LACUNA_DEVICE void operator()(const Block<SumRowsOfParts>& block) const {
    const std::int64_t part = block.index() / entries, entry = block.index() % entries;
    const std::int64_t begin = part * rows_of_part, end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
    for (std::int64_t c = block.thread() * 8; c < width; c += threads * 8) {
      Eight sum{};
      for (std::int64_t row = begin; row < end; ++row) {
        if (ids[row] != entry || entry == padding) continue;
        const Eight term = dy.at_row(row, width, c);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += term[i];
      }
      for (int i = 0; i < 8 && c + i < width; ++i) partial[block.index() * width + c + i] = sum[i];
    }
  }
};
/// Adds the parts to the table, in order.
template <class Entry>
struct AddPartsToTable {
  static constexpr int threads = 128;
  const float* partial;  // [parts, count]
  Entry* table;          // [count]
  std::int64_t parts, count;

  LACUNA_DEVICE void operator()(const Block<AddPartsToTable>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= count) return;
    float sum = static_cast<float>(to_compute(table[i]));
#pragma unroll 8
    for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * count + i];
    table[i] = static_cast<Entry>(sum);
  }
};

template <class F>
void with_types(DType table_type, DType type, const F& f) {
  with_cuda_type(table_type, [&]<class Entry>(Type<Entry> of_table) {
    with_cuda_type(type, [&]<class T>(Type<T> of_rows) { f(of_table, of_rows); });
  });
}

}  // namespace

void look_up(Stream stream, DType table_type, DType type, const LookUp& what) {
  with_types(table_type, type, [&]<class Entry, class T>(Type<Entry>, Type<T>) {
    const std::int64_t count = what.rows * what.width;
    run(stream, divide_up(what.rows * divide_up(what.width, 8), LookUpRows<Entry, T>::threads),
        LookUpRows<Entry, T>{.table = {what.table, what.entries * what.width},
                             .base = {what.base, count},
                             .y = {what.y, count},
                             .ids = what.ids,
                             .entries = what.entries,
                             .rows = what.rows,
                             .width = what.width,
                             .has_base = what.base != nullptr});
  });
}

void add_to_table(Stream stream, DType table_type, DType type, const AddToTable& what) {
  with_types(table_type, type, [&]<class Entry, class T>(Type<Entry>, Type<T>) {
    const Kept<T> dy(what.dy, what.rows * what.width);
    const std::int64_t parts = divide_up(what.rows, what.rows_of_part), count = what.entries * what.width;
    if (what.partial != nullptr) {
      run(stream, parts * what.entries,
          SumRowsOfParts<T>{dy, what.partial, what.ids, what.entries, what.rows, what.rows_of_part, what.width,
                            what.padding});
      run(stream, divide_up(count, AddPartsToTable<Entry>::threads),
          AddPartsToTable<Entry>{what.partial, static_cast<Entry*>(what.table), parts, count});
      return;
    }
    run(stream, divide_up(what.rows, FindRows::threads), FindRows{what.found, what.ids, what.entries, what.rows});
    run(stream, what.rows,
        AddRowsToTable<Entry, T>{.dy = dy,
                                 .table = {what.table, count},
                                 .ids = what.ids,
                                 .found = what.found,
                                 .entries = what.entries,
                                 .rows = what.rows,
                                 .width = what.width,
                                 .padding = what.padding});
  });
}

}  // namespace lacuna::cuda
