#include "ops/attention/normed_rotary.h"

#include "ops/norms/rms_norm_kernels.h"
#include "ops/operand.h"

namespace lacuna {
namespace {

const RegisterOp<NormedRotary> normed_rotary;

}  // namespace

Tensor NormedRotary::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  check_rotary(rotary, inputs[x].shape());
  const Tensor y = norm.forward(inputs, extra_outputs);
  rotate_rows(y.device(), rotation_of(rotary, 0, y.rows(), false), y, y);
  return y;
}

void NormedRotary::backward(Tensor dy, const Saved<NormedRotary>& saved, Grads& grads) const {
  const Tensor of_norm = reuse_or_empty(dy, dy.shape(), dy.dtype());
  rotate_rows(dy.device(), rotation_of(rotary, 0, dy.rows(), true), dy, of_norm);
  RmsNormGradients to{};
  if (grads.wanted(x)) grads[x] = to.x = of_norm;
  if (grads.wanted(weight))
    grads[weight] = to.weight = Tensor::empty({dy.shape().back() / norm.heads}, compute_type(dy.dtype()), dy.device());
  rms_norm_backward(dy.device(), norm.offset, saved.get<input(x)>(),
                    grads.wanted(x) ? saved.get<input(weight)>().whole() : Tensor(),
                    saved.get<extra_output(rstd)>().whole(), of_norm, to);
}

void NormedRotary::rematerialize(const RematInputs<NormedRotary>& from, const Tensor& out) const {
  rms_norm_normalize(out.device(), norm.offset, from.get<input(x)>(), from.get<input(weight)>(),
                     from.get<extra_output(rstd)>(), out);
  const std::int64_t first = from.first_row();
  rotate_rows(out.device(), rotation_of(rotary, first, first + out.rows(), false), out, out);
}

}  // namespace lacuna
