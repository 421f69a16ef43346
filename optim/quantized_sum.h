// Sums over the ranks of which 8 bits an element travel.
#pragma once

#include "core/communicator.h"
#include "ops/quantize/quantize.h"

#include <cstdint>

namespace lacuna {

/// Sums flat arrays over the ranks as RankOrderSum does, with about a quarter of the bytes of f32: what
/// travels is quantized to 8 bits in groups of 256. What that loses is returned, to be added to the next array: the
/// sums of all arrays together differ from the exact ones by what the last one lost, however many there are
/// (error feedback, Seide et al. 2014; both ways, Tang et al. 2019, "DoubleSqueeze"). For one thread.
class QuantizedSum {
 public:
  /// For arrays of up to `count` elements.
  QuantizedSum(Communicator& ranks, std::int64_t count);

  /// Bytes that stand for `elements` where they travel.
  static std::int64_t bytes_sent(std::int64_t elements);

  std::int64_t count() const { return values_.count(); }
  /// f32 [count]: the array before `run`, the sum after it; the same on all ranks.
  float* values() const { return values_.data<float>(); }
  /// f32 [count]: what this rank has to add to the next array.
  const float* lost() const { return lost_.data<const float>(); }
  /// Sums the first `used` elements.
  void run(std::int64_t used) const;

 private:
  /// Quantizes f32 [count] into quantized_size(count) bytes, and dequantizes that.
  void quantize(const Tensor& values, std::byte* to) const;
  void dequantize(const Tensor& bytes, const Tensor& values) const;

  Communicator& ranks_;
  Tensor values_, lost_;   // f32 [ranks · slice]
  Tensor send_, receive_;  // u8 [ranks · quantized_size(slice)]
  Tensor row_;             // f32 [slice]
};

}  // namespace lacuna
