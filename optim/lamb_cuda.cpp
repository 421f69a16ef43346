#include "optim/lamb_cuda.h"

#include "optim/kernels.h"
#include "optim/measured_tensor.h"
#include "optim/start_updates.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{
    lamb_update, DeviceKind::cuda, [](const LambSettings& settings, std::span<const Update> updates) {
      const Device device = device_of(updates);
      const LambRule rule{settings};
      std::vector<cuda::MeasuredTensor> measured;
      for (std::size_t i = 0; i < updates.size(); ++i) {
        if (!rule.adapts(updates[i].rate)) continue;
        const auto index = static_cast<std::int64_t>(2 * i);
        measured.push_back(cuda::measured(updates[i].parameter, index));
        measured.push_back(cuda::measured(updates[i].gradient, index + 1));
      }
      const cuda::ChunkTable<cuda::UpdatedParameter> table = cuda::table_of(updates);
      const cuda::ChunkTable<cuda::MeasuredTensor> norms(std::move(measured), device);
      const Tensor first = cuda::begun_workspace(updates), second = cuda::begun_workspace(updates);
      const Tensor partial = Tensor::empty({norms.chunks()}, DType::f64, device, Purpose::workspace);
      const Tensor squares = Tensor::empty({std::ssize(updates), 2}, DType::f64, device, Purpose::workspace);
      cuda::update(stream_of(device), rule,
                   {.updates = cuda::on_cuda(updates, table, first),
                    .norms = {.tensors = norms.table(),
                              .partial = partial.data<double>(),
                              .squares = squares.data<double>(),
                              .finite = nullptr},
                    .begun = second.raw()});
    }};

}  // namespace
}  // namespace lacuna
