#include "ops/pooling/sequence_mean.h"

#include "core/parallel.h"
#include "ops/operand.h"

#include <algorithm>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<SequenceMean> sequence_mean;

template <class T>
void means(const Sequences& sequences, const Tensor& x, const Tensor& y) {
  const std::int64_t width = x.shape().back();
  parallel_for(sequences.count(), x.count() < 16384 ? sequences.count() + 1 : 0,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<Compute<T>> sum(static_cast<std::size_t>(width));
                 for (std::int64_t i = begin; i < end; ++i) {
                   std::ranges::fill(sum, Compute<T>(0));
                   const std::int64_t length = sequences.length(i);
                   const T* row = x.data<T>() + sequences.begin(i) * width;
                   for (std::int64_t t = 0; t < length; ++t, row += width)
#pragma GCC ivdep
                     for (std::int64_t j = 0; j < width; ++j) sum[static_cast<std::size_t>(j)] += to_compute(row[j]);
                   T* const to = y.data<T>() + i * width;
                   for (std::int64_t j = 0; j < width; ++j)
                     to[j] = static_cast<T>(sum[static_cast<std::size_t>(j)] / static_cast<Compute<T>>(length));
                 }
               });
}

template <class T>
void spread(const Sequences& sequences, const Tensor& dy, const Tensor& dx) {
  const std::int64_t width = dx.shape().back();
  parallel_for(sequences.count(), dx.count() < 16384 ? sequences.count() + 1 : 0,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T* const from = dy.data<T>() + i * width;
                   const Compute<T> share = Compute<T>(1) / static_cast<Compute<T>>(sequences.length(i));
                   T* row = dx.data<T>() + sequences.begin(i) * width;
                   for (std::int64_t t = 0; t < sequences.end(i) - sequences.begin(i); ++t, row += width)
                     for (std::int64_t j = 0; j < width; ++j)
                       row[j] = static_cast<T>(t < sequences.length(i) ? to_compute(from[j]) * share : Compute<T>(0));
                 }
               });
}

const RegisterKernel forward_on_cpu{sequence_mean_forward, DeviceKind::cpu,
                                    [](const Sequences& sequences, const Tensor& x, const Tensor& y) {
                                      with_float_type(y.dtype(), [&]<class T>(Type<T>) { means<T>(sequences, x, y); });
                                    }};
const RegisterKernel backward_on_cpu{
    sequence_mean_backward, DeviceKind::cpu, [](const Sequences& sequences, const Tensor& dy, const Tensor& dx) {
      with_float_type(dx.dtype(), [&]<class T>(Type<T>) { spread<T>(sequences, dy, dx); });
    }};

}  // namespace

Tensor SequenceMean::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  expect(sequences != nullptr && in.shape().rank() == 3 && in.shape()[0] == 1 && in.shape()[1] == sequences->rows(),
         "sequence_mean: expected x [1, {}, C], got {}", sequences == nullptr ? 0 : sequences->rows(), in.shape());
  Tensor y = Tensor::empty({sequences->count(), in.shape().back()}, in.dtype(), in.device());
  sequence_mean_forward(in.device(), *sequences, in, y);
  return y;
}

void SequenceMean::backward(const Tensor& dy, const Saved<SequenceMean>&, Grads& grads) const {
  const Tensor dx = Tensor::empty({1, sequences->rows(), dy.shape().back()}, dy.dtype(), dy.device());
  sequence_mean_backward(dy.device(), *sequences, dy, dx);
  grads[x] = dx;
}

}  // namespace lacuna
