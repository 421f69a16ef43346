#include "ops/losses/span_cross_entropy.h"

#include "core/parallel.h"
#include "ops/operand.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<SpanCrossEntropy> span_cross_entropy;

/// Calls f(column, sequence, position, sequences that count in the column) for each that counts.
template <class F>
void for_counted(const Sequences& sequences, const Tensor& positions, const F& f) {
  const std::int64_t columns = positions.shape().back();
  const auto* const position = positions.data<std::int64_t>();  // [N, columns]
  for (std::int64_t c = 0; c < columns; ++c) {
    const auto counts = [&](std::int64_t n) {
      return position[n * columns + c] >= 0 && position[n * columns + c] < sequences.length(n);
    };
    std::int64_t counted = 0;
    for (std::int64_t n = 0; n < sequences.count(); ++n) counted += counts(n) ? 1 : 0;
    for (std::int64_t n = 0; n < sequences.count(); ++n)
      if (counts(n)) f(c, n, position[n * columns + c], counted);
  }
}

/// log Σ e^z of column c over the tokens of a sequence; the sums are small, and exact in double.
template <class T>
double log_sum(const T* z, std::int64_t columns, std::int64_t length) {
  double largest = -INFINITY, sum = 0;
  for (std::int64_t t = 0; t < length; ++t)
    largest = std::max(largest, static_cast<double>(to_compute(z[t * columns])));
  for (std::int64_t t = 0; t < length; ++t) sum += std::exp(static_cast<double>(to_compute(z[t * columns])) - largest);
  return largest + std::log(sum);
}

const RegisterKernel forward_on_cpu{
    span_cross_entropy_forward, DeviceKind::cpu,
    [](const Sequences& sequences, const Tensor& logits, const Tensor& positions, const Tensor& loss) {
      const std::int64_t columns = positions.shape().back();
      double total = 0;
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        for_counted(sequences, positions, [&](std::int64_t c, std::int64_t n, std::int64_t at, std::int64_t counted) {
          const T* const z = logits.data<T>() + sequences.begin(n) * columns + c;
          const double of_label = static_cast<double>(to_compute(z[at * columns]));
          total += (log_sum(z, columns, sequences.length(n)) - of_label) / static_cast<double>(counted * columns);
        });
      });
      loss.fill(total);
    }};
const RegisterKernel backward_on_cpu{
    span_cross_entropy_backward, DeviceKind::cpu,
    [](const Sequences& sequences, const Tensor& logits, const Tensor& positions, const Tensor& dy, const Tensor& dz) {
      const std::int64_t columns = positions.shape().back();
      dz.fill(0);
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        for_counted(sequences, positions, [&](std::int64_t c, std::int64_t n, std::int64_t at, std::int64_t counted) {
          const std::int64_t first = sequences.begin(n) * columns + c, length = sequences.length(n);
          const T* const z = logits.data<T>() + first;
          T* const to = dz.data<T>() + first;
          const double sum = log_sum(z, columns, length), scale = dy.item() / static_cast<double>(counted * columns);
          for (std::int64_t t = 0; t < length; ++t) {
            const double p = std::exp(static_cast<double>(to_compute(z[t * columns])) - sum);
            to[t * columns] = static_cast<T>(static_cast<Compute<T>>(scale * (p - (t == at ? 1 : 0))));
          }
        });
      });
    }};

}  // namespace

Tensor SpanCrossEntropy::forward(std::span<const Tensor> inputs) const {
  const Tensor &z = inputs[logits], &at = inputs[positions];
  expect(sequences != nullptr && z.shape().rank() == 3 && z.shape()[0] == 1 && z.shape()[1] == sequences->rows() &&
             at.dtype() == DType::i64 && at.shape() == Shape({sequences->count(), z.shape().back()}),
         "span_cross_entropy: expected logits [1, {}, S] and positions i64 [{}, S], got {} and {} {}",
         sequences == nullptr ? 0 : sequences->rows(), sequences == nullptr ? 0 : sequences->count(), z.shape(),
         name_of(at.dtype()), at.shape());
  Tensor loss = Tensor::empty({}, compute_type(z.dtype()), z.device());
  span_cross_entropy_forward(z.device(), *sequences, z, at, loss);
  return loss;
}

void SpanCrossEntropy::backward(Tensor dy, const Saved<SpanCrossEntropy>& saved, Grads& grads) const {
  const Tensor z = saved.get<input(logits)>().whole(), at = saved.get<input(positions)>().whole();
  const Tensor dz = empty_like(z);
  span_cross_entropy_backward(z.device(), *sequences, z, at, dy, dz);
  grads[logits] = dz;
}

}  // namespace lacuna
