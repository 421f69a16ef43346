#include "ops/arithmetic/arithmetic.h"

#include "core/parallel.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/arithmetic/reduce.h"
#include "ops/formulas.h"
#include "ops/operand.h"

namespace lacuna {
namespace {

const RegisterOp<Add> add;
const RegisterOp<AddBroadcast> add_broadcast;
const RegisterOp<Mul> mul;
const RegisterOp<Scale> scale;

/// y = formula(x...) for each element.
template <class Formula, class... In>
void map_elements(const Formula& formula, const Tensor& y, const In&... x) {
  with_float_type(y.dtype(), [&]<class T>(Type<T>) { map(y.count(), formula, y.data<T>(), x.template data<T>()...); });
}

template <class T>
void add_rows_on_cpu(const Tensor& x, const Tensor& b, std::int64_t first_row, const Tensor& y) {
  using C = Compute<T>;
  if (y.count() == 0) return;
  const std::int64_t n = y.shape().back(), b_rows = b.count() / n;
  const T* const in = x.data<T>();
  const C* const repeated = b.data<C>();
  T* const out = y.data<T>();
  parallel_for(y.rows(), 16384 / n + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const C* const addend = repeated + (first_row + row) % b_rows * n;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[row * n + i] = static_cast<T>(to_compute(in[row * n + i]) + addend[i]);
    }
  });
}

const RegisterKernel cpu_add{add_elements, DeviceKind::cpu, [](const Tensor& a, const Tensor& b, const Tensor& y) {
                               map_elements(formula::Add{}, y, a, b);
                             }};
const RegisterKernel cpu_multiply{
    multiply_elements, DeviceKind::cpu,
    [](const Tensor& a, const Tensor& b, const Tensor& y) { map_elements(formula::Mul{}, y, a, b); }};
const RegisterKernel cpu_scale{scale_elements, DeviceKind::cpu, [](double factor, const Tensor& x, const Tensor& y) {
                                 map_elements(formula::Scale{factor}, y, x);
                               }};
const RegisterKernel cpu_add_rows{
    add_rows, DeviceKind::cpu, [](const Tensor& x, const Tensor& b, std::int64_t first_row, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) { add_rows_on_cpu<T>(x, b, first_row, y); });
    }};

void expect_alike(std::string_view op, const Tensor& a, const Tensor& b) {
  expect(a.shape() == b.shape() && a.dtype() == b.dtype(),
         "{} expects two tensors of one shape and type, got {} in {} "
         "and {} in {}",
         op, a.shape(), name_of(a.dtype()), b.shape(), name_of(b.dtype()));
}

/// Whether the axes of `b`, without leading extents of 1, are the last axes of `x`.
bool repeats_over(const Shape& b, const Shape& x) {
  int skipped = 0;
  while (skipped < b.rank() && b[skipped] == 1 && b.rank() - skipped > 1) ++skipped;
  const int rank = b.rank() - skipped;
  return rank > 0 && rank <= x.rank() && std::equal(b.begin() + skipped, b.end(), x.end() - rank);
}

}  // namespace

void pass_on(const Tensor& dy, Tensor& gradient) {
  if (gradient.defined())
    add_elements(dy.device(), gradient, dy, gradient);
  else
    gradient = dy;
}

Tensor Add::forward(std::span<const Tensor> inputs) const {
  expect_alike(name, inputs[a], inputs[b]);
  Tensor y = empty_like(inputs[a]);
  add_elements(y.device(), inputs[a], inputs[b], y);
  return y;
}
void Add::backward(const Tensor& dy, const Saved<Add>&, Grads& grads) const {
  for (const Input side : {a, b})
    if (grads.wanted(side)) pass_on(dy, grads[side]);
}
void Add::rematerialize(const RematInputs<Add>& from, const Tensor& out) const {
  add_elements(out.device(), from.get<input(a)>(), from.get<input(b)>(), out);
}

Tensor AddBroadcast::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const Tensor& repeated = inputs[b];
  expect(repeated.shape() == shape, "add_broadcast was made for b of {}, got {}", shape, repeated.shape());
  expect(repeats_over(shape, in.shape()) && repeated.dtype() == compute_type(in.dtype()),
         "add_broadcast to {} {} expects the last axes of it in {}, got {} in {}", name_of(in.dtype()), in.shape(),
         name_of(compute_type(in.dtype())), shape, name_of(repeated.dtype()));
  Tensor y = empty_like(in);
  add_rows(y.device(), in, repeated, 0, y);
  return y;
}
void AddBroadcast::backward(const Tensor& dy, const Saved<AddBroadcast>&, Grads& grads) const {
  if (grads.wanted(b)) grads[b] = sum_over_leading(dy, shape);
  if (grads.wanted(x)) pass_on(dy, grads[x]);
}
void AddBroadcast::rematerialize(const RematInputs<AddBroadcast>& from, const Tensor& out) const {
  add_rows(out.device(), from.get<input(x)>(), from.get<input(b)>(), from.first_row(), out);
}

Tensor Mul::forward(std::span<const Tensor> inputs) const {
  expect_alike(name, inputs[a], inputs[b]);
  Tensor y = empty_like(inputs[a]);
  multiply_elements(y.device(), inputs[a], inputs[b], y);
  return y;
}
void Mul::backward(Tensor dy, const Saved<Mul>& saved, Grads& grads) const {
  const auto write = [&](const Tensor& to, std::int64_t begin, std::int64_t end, const Tensor& other) {
    multiply_elements(dy.device(), dy.row_range(begin, end), other, to.row_range(begin, end));
  };
  if (grads.wanted(a)) {
    grads[a] = grads.wanted(b) ? empty_like(dy) : reuse_or_empty(dy, dy.shape(), dy.dtype());
    saved.get<input(b)>().for_blocks(dy.rows(), [&](std::int64_t begin, std::int64_t end, const Tensor& other) {
      write(grads[a], begin, end, other);
    });
  }
  if (grads.wanted(b)) {
    grads[b] = reuse_or_empty(dy, dy.shape(), dy.dtype());
    saved.get<input(a)>().for_blocks(dy.rows(), [&](std::int64_t begin, std::int64_t end, const Tensor& other) {
      write(grads[b], begin, end, other);
    });
  }
}
void Mul::rematerialize(const RematInputs<Mul>& from, const Tensor& out) const {
  multiply_elements(out.device(), from.get<input(a)>(), from.get<input(b)>(), out);
}

Tensor Scale::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  scale_elements(y.device(), factor, inputs[x], y);
  return y;
}
void Scale::backward(const Tensor& dy, const Saved<Scale>&, Grads& grads) const {
  grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  scale_elements(dy.device(), factor, dy, grads[x]);
}
void Scale::rematerialize(const RematInputs<Scale>& from, const Tensor& out) const {
  scale_elements(out.device(), factor, from.get<input(x)>(), out);
}

}  // namespace lacuna
