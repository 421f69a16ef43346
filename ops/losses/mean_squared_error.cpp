#include "ops/losses/mean_squared_error.h"

#include "core/parallel.h"
#include "ops/operand.h"

namespace lacuna {
namespace {

const RegisterOp<MeanSquaredError> mean_squared_error;

/// Calls f(x, targets) with pointers of their types; values of x are computed with in Compute<T>.
template <class F>
void with_types(const Tensor& x, const Tensor& targets, F&& f) {
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    if (targets.dtype() == DType::f64)
      f(x.data<T>(), targets.data<double>());
    else
      f(x.data<T>(), targets.data<float>());
  });
}

const RegisterKernel forward_on_cpu{
    mean_squared_error_forward, DeviceKind::cpu, [](const Tensor& x, const Tensor& targets, const Tensor& loss) {
      double sum = 0;  // in order: the same bits for any number of threads
      with_types(x, targets, [&](const auto* values, const auto* wanted) {
        for (std::int64_t i = 0; i < x.count(); ++i) {
          const double error = static_cast<double>(to_compute(values[i])) - static_cast<double>(wanted[i]);
          sum += error * error;
        }
      });
      loss.fill(sum / static_cast<double>(x.count()));
    }};

const RegisterKernel backward_on_cpu{mean_squared_error_backward, DeviceKind::cpu,
                                     [](const Tensor& x, const Tensor& targets, const Tensor& dy, const Tensor& dx) {
                                       const double scale = 2 * dy.item() / static_cast<double>(x.count());
                                       with_types(x, targets, [&]<class T>(const T* values, const auto* wanted) {
                                         T* const out = dx.data<T>();
                                         parallel_for(x.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
                                           for (std::int64_t i = begin; i < end; ++i) {
                                             const double error = static_cast<double>(to_compute(values[i])) -
                                                                  static_cast<double>(wanted[i]);
                                             out[i] = static_cast<T>(static_cast<Compute<T>>(scale * error));
                                           }
                                         });
                                       });
                                     }};

}  // namespace

Tensor MeanSquaredError::forward(std::span<const Tensor> inputs) const {
  const Tensor &in = inputs[x], &wanted = inputs[targets];
  expect(in.shape() == wanted.shape() && (wanted.dtype() == DType::f32 || wanted.dtype() == DType::f64),
         "mean_squared_error expects targets {} of f32 or f64, got {} {}", in.shape(), name_of(wanted.dtype()),
         wanted.shape());
  const Tensor loss = Tensor::empty({}, in.dtype() == DType::f64 ? DType::f64 : DType::f32, in.device());
  mean_squared_error_forward(in.device(), in, wanted, loss);
  return loss;
}

void MeanSquaredError::backward(Tensor dy, const Saved<MeanSquaredError>& saved, Grads& grads) const {
  const Tensor in = saved.get<input(x)>().whole(), wanted = saved.get<input(targets)>().whole();
  const Tensor dx = empty_like(in);
  mean_squared_error_backward(in.device(), in, wanted, dy, dx);
  grads[x] = dx;
}

}  // namespace lacuna
