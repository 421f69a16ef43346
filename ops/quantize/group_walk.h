// The groups of affine codes that consecutive elements belong to, for .cu files.
#pragma once

#include "core/block.h"
#include "ops/quantize/affine_cuda.h"

namespace lacuna::cuda {

/// Goes through the groups of consecutive elements.
class GroupWalk {
 public:
  LACUNA_DEVICE GroupWalk(const AffineCodes& of, std::int64_t first)
      : of_(of), column_(first % of.row), group_(column_ / of.size), end_(end_of(group_)) {}
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

  const AffineCodes& of_;
  std::int64_t column_, group_, end_;
};

}  // namespace lacuna::cuda
