#include "ops/shapes/concat_channels.h"

#include "ops/shapes/slicing_kernels.h"

#include <numeric>
#include <utility>

namespace lacuna {
namespace {

const RegisterOp<ConcatChannels> concat_channels_op;

/// Channels [first, first + channels) of `rows` rows.
Band columns(std::int64_t rows, std::int64_t all, std::int64_t first, std::int64_t channels) {
  return {.outer = rows, .length = channels, .stride = all, .first = first};
}

std::int64_t sum_of_channels(const ConcatChannels& op) { return std::reduce(op.channels.begin(), op.channels.end()); }

Shape with_channels(const Shape& shape, std::int64_t channels) {
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  extents.back() = channels;
  return Shape(std::span<const std::int64_t>(extents));
}

}  // namespace

Tensor ConcatChannels::forward(std::span<const Tensor> inputs) const {
  expect(inputs.size() == channels.size() && !inputs.empty() && std::ssize(inputs) <= most_inputs,
         "concat_channels was made for {} inputs of at most {}, got {}", channels.size(), most_inputs, inputs.size());
  const Shape& like = inputs.front().shape();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect(like.rank() > 0 && inputs[i].shape() == with_channels(like, channels[i]) &&
               inputs[i].dtype() == inputs.front().dtype(),
           "concat_channels expects input {} of {} in {}, got {} in {}", i, with_channels(like, channels[i]),
           name_of(inputs.front().dtype()), inputs[i].shape(), name_of(inputs[i].dtype()));
  const std::int64_t all = sum_of_channels(*this);
  Tensor y = Tensor::empty(with_channels(like, all), inputs.front().dtype(), inputs.front().device());
  std::int64_t first = 0;
  for (std::size_t i = 0; i < inputs.size(); first += channels[i++])
    fill_band(y.device(), y, columns(y.rows(), all, first, channels[i]), inputs[i]);
  return y;
}

void ConcatChannels::backward(const Tensor& dy, const Saved<ConcatChannels>&, Grads& grads) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < channels.size(); first += channels[i++]) {
    const int k = static_cast<int>(i);
    if (!grads.wanted(k)) continue;
    grads[k] = Tensor::empty(with_channels(dy.shape(), channels[i]), dy.dtype(), dy.device());
    take_band(dy.device(), dy, columns(dy.rows(), dy.shape().back(), first, channels[i]), grads[k]);
  }
}

void ConcatChannels::rematerialize(const RematInputs<ConcatChannels>& from, const Tensor& out) const {
  const std::int64_t all = out.shape().back();
  std::int64_t first = 0;
  const auto place = [&]<int i>() {
    if (i >= std::ssize(channels)) return;
    const std::int64_t own = channels[static_cast<std::size_t>(i)];
    fill_band(out.device(), out, columns(out.rows(), all, first, own), from.get<input(i)>());
    first += own;
  };
  [&]<int... i>(std::integer_sequence<int, i...>) { (place.template operator()<i>(), ...); }
  (std::make_integer_sequence<int, most_inputs>{});
}

}  // namespace lacuna
