#include "ops/attention/window_attention.h"

#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/window_attention_cuda.h"
#include "ops/attention/window_attention_kernels.h"
#include "ops/operand.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<WindowAttention> window_attention;

void check_parameter(std::string_view what, const Tensor& given, const Shape& shape, DType dtype) {
  if (!given.defined()) return;
  expect(given.shape() == shape && given.dtype() == dtype, "window_attention: expected {} {} in {}, got {} in {}", what,
         shape, name_of(dtype), given.shape(), name_of(given.dtype()));
}

WindowArguments arguments_of(const WindowAttention& op, const Shape& qkv, DType dtype, const Tensor& table,
                             const Tensor& pad, const Tensor& logit_scale, Device device) {
  expect(qkv.rank() == 3 && op.heads > 0 && op.height > 0 && op.width > 0 && qkv[1] == op.height * op.width &&
             qkv[2] % (3 * op.heads) == 0,
         "window_attention: expected qkv [B, {}·{}, 3 · {} heads · d], got {}", op.height, op.width, op.heads, qkv);
  const auto fits = [](std::int64_t window, std::int64_t shift) { return window > 0 && 0 <= shift && shift < window; };
  expect(fits(op.window_height, op.shift_down) && fits(op.window_width, op.shift_right),
         "window_attention: expected windows of one token or more and smaller shifts, got {}x{} shifted by {}, {}",
         op.window_height, op.window_width, op.shift_down, op.shift_right);
  const std::int64_t head_dim = qkv[2] / (3 * op.heads);
  const DType compute = compute_type(dtype);
  expect(table.defined(), "window_attention: expected a table of biases");
  check_parameter("a table", table, {(2 * op.window_height - 1) * (2 * op.window_width - 1), op.heads}, compute);
  check_parameter("pad", pad, {qkv[2]}, compute);
  check_parameter("logit_scale", logit_scale, {op.heads}, compute);
  WindowArguments a{.images = qkv[0],
                    .height = op.height,
                    .width = op.width,
                    .heads = op.heads,
                    .head_dim = head_dim,
                    .window_height = op.window_height,
                    .window_width = op.window_width,
                    .shift_down = op.shift_down,
                    .shift_right = op.shift_right,
                    .pads_first = op.pads_first,
                    .scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(head_dim)),
                    .table = table,
                    .pad = pad,
                    .logit_scale = logit_scale};
  // On the CPU several pairs of head and part a thread, so that threads end at about the same time.
  constexpr std::int64_t pairs_per_thread = 4;
  const std::int64_t pairs = computes_on_cuda(device) ? cuda::window_pairs : pairs_per_thread * threads();
  a.parts =
      std::clamp<std::int64_t>((pairs + a.heads - 1) / a.heads, 1, std::max<std::int64_t>(a.images * a.windows(), 1));
  return a;
}

Tensor workspace_of(const Shape& shape, DType dtype, Device device) {
  return Tensor::empty(shape, compute_type(dtype), device, Purpose::workspace);
}

template <Source from>
Tensor saved_parameter(const Saved<WindowAttention>& saved) {
  return saved.has<from>() ? saved.get<from>().whole() : Tensor();
}

}  // namespace

std::int64_t WindowAttention::macs(std::span<const Shape>, const Shape& y) const {
  return 2 * y.count() * window_height * window_width;
}

Tensor WindowAttention::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[qkv];
  WindowArguments a =
      arguments_of(*this, in.shape(), in.dtype(), inputs[table], inputs[pad], inputs[logit_scale], in.device());
  a.qkv = in;
  Tensor y = Tensor::empty(in.shape().with_back(a.heads * a.head_dim), in.dtype(), in.device());
  window_attention_forward(
      y.device(), a, y,
      workspace_of(window_attention_forward_workspace(a, in.dtype(), in.device()), in.dtype(), in.device()));
  return y;
}

void WindowAttention::backward(const Tensor& dy, const Saved<WindowAttention>& saved, Grads& grads) const {
  const Operand packed = saved.get<input(qkv)>();
  const Shape shape = packed.shape();
  const Device device = dy.device();
  const WindowArguments whole =
      arguments_of(*this, shape, dy.dtype(), saved_parameter<input(table)>(saved), saved_parameter<input(pad)>(saved),
                   saved_parameter<input(logit_scale)>(saved), device);
  const auto sums = [&](int wanted, std::initializer_list<std::int64_t> extents) {
    return grads.wanted(wanted) ? Tensor::zeros(extents, compute_type(dy.dtype()), device, Purpose::workspace)
                                : Tensor();
  };
  WindowGradients to{.table_sums = sums(table, {whole.parts, heads, whole.table_rows()}),
                     .pad_sums = sums(pad, {whole.parts, shape.back()}),
                     .scale_sums = sums(logit_scale, {whole.parts, heads})};
  const Tensor dqkv = grads.wanted(qkv) ? Tensor::empty(shape, dy.dtype(), device) : Tensor();
  const std::int64_t tokens = height * width;
  const std::int64_t run = std::max<std::int64_t>(packed.block_rows() / tokens, 1);  // images decoded at a time
  WindowArguments largest = whole;
  largest.images = std::min(whole.images, run);
  const Tensor workspace =
      workspace_of(window_attention_backward_workspace(largest, dy.dtype(), device), dy.dtype(), device);
  for (std::int64_t first = 0; first < whole.images; first += run) {
    const std::int64_t last = std::min(whole.images, first + run);
    WindowArguments a = whole;
    a.images = last - first;
    a.first = first;
    a.qkv = packed.rows(first * tokens, last * tokens);
    if (dqkv.defined()) to.qkv = dqkv.row_range(first * tokens, last * tokens);
    window_attention_backward(device, a, dy.row_range(first * tokens, last * tokens), to, workspace);
  }
  if (dqkv.defined()) grads[qkv] = dqkv;
  if (to.table_sums.defined()) {
    grads[table] = empty_like(whole.table);
    window_attention_sum_table(device, to.table_sums, grads[table]);
  }
  const auto sum_parts = [&](int wanted, const Tensor& parts, const Tensor& of) {
    if (!parts.defined()) return;
    grads[wanted] = empty_like(of);
    attention_sum_bias(device, parts, grads[wanted]);
  };
  sum_parts(pad, to.pad_sums, whole.pad);
  sum_parts(logit_scale, to.scale_sums, whole.logit_scale);
}

}  // namespace lacuna
