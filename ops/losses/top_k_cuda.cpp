#include "ops/losses/top_k_cuda.h"

#include "core/backend.h"
#include "ops/losses/top_k.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterKernel cuda_largest{find_largest, DeviceKind::cuda, [](const Tensor& values, const Tensor& places) {
                                    cuda::find_largest(stream_of(values.device()), values.dtype(),
                                                       {.values = values.data<const std::byte>(),
                                                        .places = places.data<std::int64_t>(),
                                                        .rows = values.rows(),
                                                        .columns = values.shape().back()});
                                  }};

const RegisterKernel cuda_count{
    count_top_k, DeviceKind::cuda,
    [](const Tensor& logits, const Tensor& targets, std::span<const std::int64_t> k, const Tensor& counts) {
      expect(k.size() <= cuda::CountTopK::most, "count_top_k: expected up to {} numbers k, got {}",
             cuda::CountTopK::most, k.size());
      Tensor labels = targets;
      if (targets.dtype() != DType::i64) {
        labels = Tensor::empty({logits.rows()}, DType::i64, logits.device(), Purpose::workspace);
        find_largest(logits.device(), targets, labels);
      }
      const Tensor larger = Tensor::empty({logits.rows()}, DType::i64, logits.device(), Purpose::workspace);
      cuda::CountTopK what{.logits = logits.data<const std::byte>(),
                           .targets = labels.data<const std::int64_t>(),
                           .larger = larger.data<std::int64_t>(),
                           .counts = counts.data<double>(),
                           .rows = logits.rows(),
                           .columns = logits.shape().back(),
                           .k = {},
                           .ks = static_cast<int>(k.size())};
      std::ranges::copy(k, what.k);
      cuda::count_top_k(stream_of(logits.device()), logits.dtype(), what);
    }};

}  // namespace
}  // namespace lacuna
