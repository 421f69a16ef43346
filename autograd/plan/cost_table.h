// The cost model by which plans are compared: seconds per operation.
#pragma once

#include "autograd/plan/bit_allocation.h"
#include "ops/quantize/quantizer.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace lacuna {

/// Nominal rates of two cores with AVX-512. Plans depend only on the ratios.
struct CostTable {
  double macs = 1.5e11;   // multiply-adds per second in matrix products
  double bytes = 4.5e10;  // bytes per second, read or written, in a memory-bound pass
  double disk = 1e9;      // bytes per second, written or read, of the disk in memory.offload

  /// By quantizer, where it was measured: seconds per byte of a tensor that is encoded once and decoded about twice.
  std::map<std::string, double, std::less<>> coding{};

  double op_seconds(std::int64_t op_macs, std::int64_t op_bytes) const {
    return std::max(static_cast<double>(op_macs) / macs, static_cast<double>(op_bytes) / bytes);
  }
  /// Time to quantize and decode a tensor; 0 at `exact_bits`.
  double quantize_seconds(std::int64_t tensor_bytes, int bits) const {
    if (bits == exact_bits) return 0;
    const auto measured = coding.find(quant::min_error_config(bits, {}).quantizer);
    const double rate =
        measured != coding.end() ? measured->second : quant::min_error_quantizer(bits).seconds_per_byte();
    return rate * static_cast<double>(tensor_bytes);
  }
  /// Time to rematerialize a tensor in backward: one tensor is read and this one is written.
  double rematerialize_seconds(std::int64_t tensor_bytes) const {
    return 2 * static_cast<double>(tensor_bytes) / bytes;
  }
  /// Time to write a tensor to a file in forward and read it in backward: two copies between memory and buffers, and
  /// the fraction `waited` of the disk's time that does not overlap with computation.
  double offload_seconds(std::int64_t tensor_bytes, double waited) const {
    return (4 / bytes + 2 * waited / disk) * static_cast<double>(tensor_bytes);
  }
  bool operator==(const CostTable&) const = default;
};

}  // namespace lacuna
