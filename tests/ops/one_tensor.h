// What an op with one saved tensor reads in backward.
#pragma once

#include "core/op.h"

#include <utility>

namespace lacuna {

/// One saved tensor, and the variance of its errors where that is told; seven rows at a time.
class OneTensor final : public SavedTensors {
 public:
  OneTensor(Tensor values, Tensor variance) : values_(std::move(values)), variance_(std::move(variance)) {}
  Tensor whole(std::size_t) const override { return values_; }
  Tensor rows(std::size_t, std::int64_t begin, std::int64_t end, Tensor* variance) const override {
    if (variance != nullptr && variance_.defined()) *variance = variance_.row_range(begin, end);
    return values_.row_range(begin, end);
  }
  std::int64_t block_rows(std::size_t) const override { return 7; }
  Signs signs(std::size_t) const override { return {.values = values_, .bits = {}}; }

 private:
  Tensor values_, variance_;
};

}  // namespace lacuna
