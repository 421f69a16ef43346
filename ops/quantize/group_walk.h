// The groups of affine codes that consecutive elements belong to, for .cu files.
#pragma once

#include "core/block.h"
#include "ops/cuda/divisor.h"
#include "ops/quantize/affine_cuda.h"

namespace lacuna::cuda {

/// The layout of groups.
struct Groups {
  std::int64_t row, size;  // elements of a row, columns of a group
  bool in_eights;          // eight elements from a multiple of 8 on are of one group
  Divisor by_row, by_size;
  explicit Groups(const AffineCodes& of)
      : row(of.row),
        size(of.size),
        in_eights(of.size % 8 == 0 && (of.row % 8 == 0 || of.row == of.count)),
        by_row(of.row),
        by_size(of.size) {}
  LACUNA_DEVICE std::int64_t column_of(std::int64_t element) const {
    return element < row ? element : by_row.remainder(element);
  }
  LACUNA_DEVICE std::int64_t group_of(std::int64_t element) const { return by_size.quotient(column_of(element)); }
};

/// Goes through the groups of consecutive elements.
class GroupWalk {
 public:
  LACUNA_DEVICE GroupWalk(const Groups& of, std::int64_t first)
      : of_(of), column_(of.column_of(first)), group_(of.by_size.quotient(column_)), end_(end_of(group_)) {}
  LACUNA_DEVICE std::int64_t group() const { return group_; }
  /// Moves to the next element; true if it is of another group.
  LACUNA_DEVICE bool next() {
    if (++column_ < end_) return false;
    if (column_ == of_.row)
      column_ = group_ = 0;
    else
      ++group_;
    end_ = end_of(group_);
    return true;
  }

 private:
  LACUNA_DEVICE std::int64_t end_of(std::int64_t group) const {
    const std::int64_t end = (group + 1) * of_.size;
    return end < of_.row ? end : of_.row;
  }

  const Groups& of_;
  std::int64_t column_, group_, end_;
};

}  // namespace lacuna::cuda
