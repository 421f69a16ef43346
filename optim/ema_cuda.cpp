#include "optim/ema_cuda.h"

#include "optim/chunk_table.h"
#include "optim/kernels.h"

#include <utility>
#include <vector>

namespace lacuna {
namespace {

const RegisterKernel cuda_average{average_weights, DeviceKind::cuda,
                                  [](double decay, std::span<const AveragedTensor> tensors) {
                                    const Device device = tensors.front().value.device();
                                    std::vector<cuda::AveragedValues> entries;
                                    for (const auto& [value, average] : tensors)
                                      entries.push_back({.value = value.data<const float>(),
                                                         .average = average.data<float>(),
                                                         .count = value.count(),
                                                         .first_chunk = 0});
                                    const cuda::ChunkTable<cuda::AveragedValues> table(std::move(entries), device);
                                    cuda::average(stream_of(device), formula::average_step(decay), table.table());
                                  }};

const RegisterKernel cuda_swap{swap_contents, DeviceKind::cuda, [](const Tensor& a, const Tensor& b) {
                                 cuda::swap_contents(
                                     stream_of(a.device()),
                                     {.a = a.raw(), .b = b.raw(), .bytes = static_cast<std::int64_t>(a.bytes())});
                               }};

}  // namespace
}  // namespace lacuna
