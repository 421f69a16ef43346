// Kernels for communication between the GPUs of the ranks.
#pragma once

#include "core/kernel.h"

#include <memory>

namespace lacuna {

class Communicator;
class Tensor;

/// Creates the communicator that device_ranks(device, host) returns.
inline constinit Kernel<void(Device device, Communicator& host, std::unique_ptr<Communicator>& made)> open_device_ranks{
    "communication between ranks"};

/// sum[i] = rows[0][i] + rows[1][i] + ..., in this order, each sum rounded to the type. rows: [ranks, n], sum: [n],
/// both f64, f32, bf16 or f16.
inline constinit Kernel<void(const Tensor& rows, const Tensor& sum)> add_rows_in_order{"sum over ranks"};

}  // namespace lacuna
