#include "ops/detection/box_losses.h"

#include "core/parallel.h"
#include "ops/detection/box_loss_formulas.h"
#include "ops/operand.h"

#include <algorithm>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<FocalLoss> focal_loss;
const RegisterOp<RowSmoothL1> row_smooth_l1;

constexpr std::int64_t rows_together = 256;  // of a sum; a rule of the shape, so that threads do not change bits

/// Σ term(m) over [0, rows), by parts that are added in order.
template <class F>
double sum_over(std::int64_t rows, const F& term) {
  std::vector<double> parts(static_cast<std::size_t>((rows + rows_together - 1) / rows_together));
  parallel_for(std::ssize(parts), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      for (std::int64_t m = p * rows_together; m < std::min(rows, (p + 1) * rows_together); ++m)
        parts[static_cast<std::size_t>(p)] += static_cast<double>(term(m));
  });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

template <class C>
formula::Focal<C> focal_of(const FocalLoss& op) {
  return {static_cast<C>(op.alpha), static_cast<C>(op.gamma)};
}

const RegisterKernel focal_forward_on_cpu{
    focal_loss_forward, DeviceKind::cpu,
    [](const FocalLoss& op, const Tensor& logits, const Tensor& labels, const Tensor& weights, const Tensor& loss) {
      const std::int64_t rows = logits.rows(), classes = logits.shape().back();
      const auto* const label = labels.data<const std::int64_t>();
      for (std::int64_t m = 0; m < rows; ++m)
        if (label[m] < FocalLoss::left_out || label[m] >= classes)
          reject("focal_loss: label {} of row {}: expected -2 (left out), -1 (background) or a class below {}",
                 label[m], m, classes);
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const auto focal = focal_of<C>(op);
        const T* const z = logits.data<const T>();
        const C* const weight = weights.data<const C>();
        loss.fill(sum_over(rows, [&](std::int64_t m) {
          constexpr std::int64_t together = 32;  // terms are made side by side, then added up in order
          C sum = 0;
          for (std::int64_t first = 0; first < classes && label[m] != FocalLoss::left_out; first += together) {
            const std::int64_t count = std::min(together, classes - first);
            const T* const own = z + m * classes + first;
            C terms[together];
            for (std::int64_t k = 0; k < count; ++k) terms[k] = focal.loss(to_compute(own[k]), false);
            if (const std::int64_t k = label[m] - first; k >= 0 && k < count)
              terms[k] = focal.loss(to_compute(own[k]), true);
            for (std::int64_t k = 0; k < count; ++k) sum += terms[k];
          }
          return weight[m] * sum;
        }));
      });
    }};

const RegisterKernel focal_backward_on_cpu{
    focal_loss_backward, DeviceKind::cpu,
    [](const FocalLoss& op, const Tensor& logits, const Tensor& labels, const Tensor& weights, const Tensor& dy,
       const Tensor& dlogits) {
      const std::int64_t rows = logits.rows(), classes = logits.shape().back();
      const auto* const label = labels.data<const std::int64_t>();
      const double scale = dy.item();
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const auto focal = focal_of<C>(op);
        const T* const z = logits.data<const T>();
        T* const out = dlogits.data<T>();
        parallel_for(rows, 1 + 4096 / classes, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t m = begin; m < end; ++m) {
            const bool counts = label[m] != FocalLoss::left_out;
            const C factor = static_cast<C>(scale) * weights.data<const C>()[m];
            const T* const own = z + m * classes;
            T* const slopes = out + m * classes;
            if (!counts) {
              std::fill_n(slopes, classes, static_cast<T>(C(0)));
              continue;
            }
            for (std::int64_t k = 0; k < classes; ++k)
              slopes[k] = static_cast<T>(factor * focal.slope(to_compute(own[k]), false));
            if (label[m] >= 0) slopes[label[m]] = static_cast<T>(factor * focal.slope(to_compute(own[label[m]]), true));
          }
        });
      });
    }};

const RegisterKernel rows_forward_on_cpu{row_smooth_l1_forward, DeviceKind::cpu,
                                         [](double beta, const Tensor& x, const Tensor& rows, const Tensor& targets,
                                            const Tensor& weights, const Tensor& differences, const Tensor& loss) {
                                           const std::int64_t count = rows.count(), width = x.shape().back();
                                           const auto* const row = rows.data<const std::int64_t>();
                                           for (std::int64_t r = 0; r < count; ++r)
                                             if (row[r] < 0 || row[r] >= x.rows())
                                               reject("row_smooth_l1: row {}: expected 0 to {}", row[r], x.rows() - 1);
                                           with_float_type(x.dtype(), [&]<class T>(Type<T>) {
                                             using C = Compute<T>;
                                             const formula::SmoothL1<C> smooth{static_cast<C>(beta)};
                                             T* const difference = differences.data<T>();
                                             loss.fill(sum_over(count, [&](std::int64_t r) {
                                               C sum = 0;
                                               for (std::int64_t c = 0; c < width; ++c) {
                                                 const C own = to_compute(x.data<const T>()[row[r] * width + c]) -
                                                               targets.data<const C>()[r * width + c];
                                                 difference[r * width + c] = static_cast<T>(own);
                                                 sum += smooth.loss(own);
                                               }
                                               return weights.data<const C>()[r] * sum;
                                             }));
                                           });
                                         }};

const RegisterKernel rows_backward_on_cpu{
    row_smooth_l1_backward, DeviceKind::cpu,
    [](double beta, const Tensor& rows, const Tensor& weights, const Tensor& differences, const Tensor& dy,
       const Tensor& dx) {
      const std::int64_t count = rows.count(), width = dx.shape().back();
      const double scale = dy.item();
      with_float_type(dx.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const formula::SmoothL1<C> smooth{static_cast<C>(beta)};
        for (std::int64_t r = 0; r < count; ++r)
          for (std::int64_t c = 0; c < width; ++c)
            dx.data<T>()[rows.data<const std::int64_t>()[r] * width + c] =
                static_cast<T>(static_cast<C>(scale) * weights.data<const C>()[r] *
                               smooth.slope(to_compute(differences.data<const T>()[r * width + c])));
      });
    }};

}  // namespace

Tensor FocalLoss::forward(std::span<const Tensor> inputs) const {
  const Tensor& z = inputs[logits];
  expect(inputs[labels].count() == z.rows() && inputs[labels].dtype() == DType::i64 &&
             inputs[weights].count() == z.rows() && inputs[weights].dtype() == compute_type(z.dtype()),
         "{}: expected labels i64 and weights {} of {} rows, got {} {} and {} {}", name,
         name_of(compute_type(z.dtype())), z.rows(), name_of(inputs[labels].dtype()), inputs[labels].shape(),
         name_of(inputs[weights].dtype()), inputs[weights].shape());
  Tensor loss = Tensor::empty({}, compute_type(z.dtype()), z.device());
  focal_loss_forward(z.device(), *this, z, inputs[labels], inputs[weights], loss);
  return loss;
}

void FocalLoss::backward(Tensor dy, const Saved<FocalLoss>& saved, Grads& grads) const {
  const Tensor z = saved.get<input(logits)>().whole();
  grads[logits] = empty_like(z);
  focal_loss_backward(z.device(), *this, z, saved.get<input(labels)>().whole(), saved.get<input(weights)>().whole(), dy,
                      grads[logits]);
}

Tensor RowSmoothL1::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& from = inputs[x];
  const std::int64_t count = inputs[rows].count(), width = from.shape().back();
  const DType type = compute_type(from.dtype());
  expect(from.shape() == shape && inputs[rows].dtype() == DType::i64 &&
             inputs[targets].shape() == Shape{count, width} && inputs[targets].dtype() == type &&
             inputs[weights].count() == count && inputs[weights].dtype() == type,
         "{}: expected x {}, rows i64, targets and weights {} of {} and [{}], got {}, {} {}, {} {} and {} {}", name,
         shape, name_of(type), Shape{count, width}, count, from.shape(), name_of(inputs[rows].dtype()),
         inputs[rows].shape(), name_of(inputs[targets].dtype()), inputs[targets].shape(),
         name_of(inputs[weights].dtype()), inputs[weights].shape());
  Tensor loss = Tensor::empty({}, type, from.device());
  const Tensor found = Tensor::empty({count, width}, from.dtype(), from.device());
  row_smooth_l1_forward(from.device(), beta, from, inputs[rows], inputs[targets], inputs[weights], found, loss);
  extra_outputs = {found};
  return loss;
}

void RowSmoothL1::backward(Tensor dy, const Saved<RowSmoothL1>& saved, Grads& grads) const {
  const Tensor of_rows = saved.get<extra_output(differences)>().whole();
  grads[x] = Tensor::zeros(shape, of_rows.dtype(), dy.device());
  row_smooth_l1_backward(dy.device(), beta, saved.get<input(rows)>().whole(), saved.get<input(weights)>().whole(),
                         of_rows, dy, grads[x]);
}

}  // namespace lacuna
