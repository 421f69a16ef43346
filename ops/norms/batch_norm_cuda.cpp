#include "ops/norms/batch_norm_cuda.h"

#include "ops/cuda/operand.h"
#include "ops/norms/batch_norm_kernels.h"

#include <span>
#include <vector>

namespace lacuna {
namespace {

const float* channels_of(const Tensor& tensor) { return tensor.defined() ? tensor.data<const float>() : nullptr; }
float* written(const Tensor& tensor) { return tensor.defined() ? tensor.data<float>() : nullptr; }

/// [parts, 2, channels] for the partial sums over rows.
Tensor partial_sums(const Tensor& x) {
  const std::int64_t channels = x.shape().back();
  return Tensor::zeros({cuda::channel_sum_parts(x.rows(), channels), 2, channels}, DType::f32, x.device(),
                       Purpose::workspace);
}

void statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  const Tensor partial = partial_sums(x);
  cuda::batch_norm_statistics(stream_of(x.device()), x.dtype(),
                              {.x = x.data<const std::byte>(),
                               .partial = partial.data<float>(),
                               .mean = mean.data<float>(),
                               .variance = variance.data<float>(),
                               .rows = x.rows(),
                               .channels = x.shape().back(),
                               .parts = partial.shape().front()});
}

/// `x` null: codes.
void apply_to(const BatchNormChannels& channels, const std::byte* x, const cuda::CodedRange& codes,
              const Tensor& residual, const Rectify& rectify, const Tensor& y) {
  const std::int64_t width = channels.weight.count();
  cuda::batch_norm_apply(stream_of(y.device()), y.dtype(),
                         {.of = {channels_of(channels.weight), channels_of(channels.bias), channels_of(channels.mean),
                                 channels_of(channels.variance), static_cast<float>(channels.eps)},
                          .codes = codes,
                          .x = x,
                          .residual = residual.defined() ? residual.data<const std::byte>() : nullptr,
                          .y = y.raw(),
                          .rows = y.count() / width,
                          .channels = width,
                          .relu = rectify.relu,
                          .signs = rectify.signs.defined() ? rectify.signs.data<const std::uint8_t>() : nullptr,
                          .first_sign = rectify.first_element});
}

void apply(const BatchNormChannels& channels, const Tensor& x, const Tensor& residual, const Rectify& rectify,
           const Tensor& y) {
  apply_to(channels, x.data<const std::byte>(), {}, residual, rectify, y);
}
void apply_to_codes(const BatchNormChannels& channels, const Operand& x, std::int64_t begin, const Tensor& residual,
                    const Rectify& rectify, const Tensor& y) {
  apply_to(channels, nullptr, cuda::coded_range(x, begin, y), residual, rectify, y);
}

class Backward {
 public:
  Backward(const BatchNormBackward& given, const BatchNormGradients& to)
      : given_(given),
        to_(to),
        stream_(stream_of(given.dy.device())),
        channels_(given.dy.shape().back()),
        dx_needs_sums_(to.x.defined() && given.own_statistics) {
    if (const auto* const mask = given.signs.as<SignForm>()) {
      gate_ = cuda::NormGate::bits;
      signs_ = mask->bits;
    } else if (given.signs.defined()) {
      gate_ = cuda::NormGate::values;
      signs_ = given.signs.whole();
    } else if (given.bias.defined()) {
      gate_ = cuda::NormGate::normalized;
    }
    expect(signs_.defined() || !to.residual.defined(), "batch norm: expected signs of the output beside a residual");
  }

  void run() const {
    const bool by_x = gate_ == cuda::NormGate::normalized;
    Tensor slopes;
    if (to_.weight.defined() || to_.bias.defined() || dx_needs_sums_) {
      const Tensor partial = partial_sums(given_.dy);
      for_rows(given_.x.defined(), [&](const cuda::BatchNormRows& rows) {
        cuda::batch_norm_sums(stream_, given_.dy.dtype(), {rows, partial.data<float>(), partial.shape().front()});
      });
      if (dx_needs_sums_) slopes = Tensor::empty({2, channels_}, DType::f32, given_.dy.device(), Purpose::workspace);
      finish(partial, slopes);
    }
    if (!to_.x.defined() && !to_.residual.defined()) return;
    for_rows(dx_needs_sums_ || by_x, [&](const cuda::BatchNormRows& rows) {
      const auto at = [&](const Tensor& tensor) {
        return tensor.defined() ? tensor.row_range(rows.first_row, rows.first_row + rows.rows).raw() : nullptr;
      };
      cuda::batch_norm_gradient(
          stream_, given_.dy.dtype(),
          {.rows = rows, .slopes = channels_of(slopes), .dx = at(to_.x), .residual = at(to_.residual)});
    });
  }

 private:
  /// Calls `f(BatchNormRows)` for runs of rows: all at once unless x is read and has to be decoded or rematerialized.
  template <class F>
  void for_rows(bool reads_x, const F& f) const {
    const auto call = [&](std::int64_t begin, std::int64_t end, const cuda::SavedValues& x) {
      const std::byte* signs = nullptr;
      if (gate_ == cuda::NormGate::bits) signs = signs_.data<const std::byte>();
      if (gate_ == cuda::NormGate::values) signs = signs_.row_range(begin, end).data<const std::byte>();
      f({.of = {channels_of(given_.weight), channels_of(given_.bias), channels_of(given_.mean),
                channels_of(given_.variance), static_cast<float>(given_.eps)},
         .x = x,
         .reads_x = reads_x,
         .dy = given_.dy.row_range(begin, end).data<const std::byte>(),
         .gate = gate_,
         .signs = signs,
         .first_row = begin,
         .rows = end - begin,
         .channels = channels_});
    };
    if (reads_x)
      cuda::for_saved_rows(given_.x, given_.dy.rows(), call);
    else
      call(0, given_.dy.rows(), cuda::saved_values(given_.dy));
  }

  void finish(const Tensor& partial, const Tensor& slopes) const {
    const bool of_ranks = given_.ranks != nullptr && dx_needs_sums_;
    Tensor totals;  // f64 [2, C]
    if (of_ranks) totals = Tensor::empty({2, channels_}, DType::f64, partial.device(), Purpose::workspace);
    cuda::BatchNormFinish what{.partial = partial.data<const float>(),
                               .totals = of_ranks ? totals.data<double>() : nullptr,
                               .weight_gradient = written(to_.weight),
                               .bias_gradient = written(to_.bias),
                               .slopes = of_ranks ? nullptr : written(slopes),
                               .weight = channels_of(given_.weight),
                               .variance = channels_of(given_.variance),
                               .channels = channels_,
                               .parts = partial.shape().front(),
                               .count = static_cast<double>(given_.dy.rows()),
                               .eps = static_cast<float>(given_.eps)};
    cuda::batch_norm_finish(stream_, what);
    if (!of_ranks) return;
    // dx needs the sums over the rows of all ranks; the gradients of weight and bias are summed later.
    given_.ranks->all_reduce(totals);
    what.partial = nullptr;
    what.weight_gradient = what.bias_gradient = nullptr;
    what.slopes = slopes.data<float>();
    what.count *= given_.ranks->size();
    cuda::batch_norm_finish(stream_, what);
  }

  const BatchNormBackward& given_;
  const BatchNormGradients& to_;
  Stream stream_;
  std::int64_t channels_;
  bool dx_needs_sums_;
  cuda::NormGate gate_ = cuda::NormGate::open;
  Tensor signs_;  // bits or values
};

const RegisterKernel cuda_statistics{batch_norm_statistics, DeviceKind::cuda, statistics};
const RegisterKernel cuda_join{batch_norm_join, DeviceKind::cuda,
                               [](const Tensor& all, const Tensor& mean, const Tensor& variance) {
                                 cuda::batch_norm_join(stream_of(mean.device()), {.all = all.data<const float>(),
                                                                                  .mean = mean.data<float>(),
                                                                                  .variance = variance.data<float>(),
                                                                                  .ranks = all.shape().front(),
                                                                                  .channels = mean.count()});
                               }};
const RegisterKernel cuda_apply{batch_norm_apply, DeviceKind::cuda, apply};
const RegisterKernel cuda_of_codes{batch_norm_of_codes, DeviceKind::cuda, apply_to_codes};
const RegisterKernel cuda_backward{
    batch_norm_backward, DeviceKind::cuda,
    [](const BatchNormBackward& given, const BatchNormGradients& to) { Backward(given, to).run(); }};

}  // namespace
}  // namespace lacuna
