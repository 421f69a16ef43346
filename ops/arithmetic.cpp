#include "ops/arithmetic.h"

#include "core/parallel.h"
#include "ops/formulas.h"
#include "ops/operand.h"
#include "ops/reduce.h"

namespace lacuna {
namespace {

const RegisterOp<Add> add;
const RegisterOp<AddBroadcast> add_broadcast;
const RegisterOp<Mul> mul;
const RegisterOp<Scale> scale;

/// out = formula(in...), all of one floating type and one number of elements; `out` may be one of the inputs.
template <class Formula, class... In>
void apply(const Formula& formula, const Tensor& out, const In&... in) {
  launch(out.device(), [&] {
    with_float_type(out.dtype(),
                    [&]<class T>(Type<T>) { map(out.count(), formula, out.data<T>(), in.template data<T>()...); });
  });
}

void expect_alike(std::string_view op, const Tensor& a, const Tensor& b) {
  expect(a.shape() == b.shape() && a.dtype() == b.dtype(),
         "{} expects two tensors of one shape and type, got {} in {} "
         "and {} in {}",
         op, a.shape(), name_of(a.dtype()), b.shape(), name_of(b.dtype()));
}

/// Adds `dy` to the gradient that is there; otherwise passes it on as the gradient.
void pass_on(const Tensor& dy, Tensor& gradient) {
  if (gradient.defined())
    apply(formula::Add{}, gradient, gradient, dy);
  else
    gradient = dy;
}

/// out = x + b for rows of x [rows, C], the first of which meets row `first_row` of b, modulo b's rows.
void add_rows(const Tensor& x, const Tensor& b, std::int64_t first_row, const Tensor& out) {
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      using C = Compute<T>;
      const std::int64_t n = out.shape().back(), b_rows = b.count() / n;
      const T* const in = x.data<T>();
      const C* const repeated = b.data<C>();
      T* const to = out.data<T>();
      parallel_for(out.rows(), 16384 / n + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const C* const addend = repeated + (first_row + row) % b_rows * n;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i)
            to[row * n + i] = static_cast<T>(to_compute(in[row * n + i]) + addend[i]);
        }
      });
    });
  });
}

/// Whether `b` is the last axes of `x`, after any number of leading ones.
bool repeats_over(const Shape& b, const Shape& x) {
  int skipped = 0;
  while (skipped < b.rank() && b[skipped] == 1 && b.rank() - skipped > 1) ++skipped;
  const int rank = b.rank() - skipped;
  return rank > 0 && rank <= x.rank() && std::equal(b.begin() + skipped, b.end(), x.end() - rank);
}

}  // namespace

Tensor Add::forward(std::span<const Tensor> inputs) const {
  expect_alike(name, inputs[a], inputs[b]);
  Tensor y = empty_like(inputs[a]);
  apply(formula::Add{}, y, inputs[a], inputs[b]);
  return y;
}
void Add::backward(const Tensor& dy, const Saved<Add>&, Grads& grads) const {
  for (const Input side : {a, b})
    if (grads.wanted(side)) pass_on(dy, grads[side]);
}
void Add::rematerialize(const RematInputs<Add>& from, const Tensor& out) const {
  apply(formula::Add{}, out, from.get<input(a)>(), from.get<input(b)>());
}

Tensor AddBroadcast::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const Tensor& repeated = inputs[b];
  expect(repeated.shape() == shape, "add_broadcast was made for b of {}, got {}", shape, repeated.shape());
  expect(repeats_over(shape, in.shape()) && repeated.dtype() == compute_type(in.dtype()),
         "add_broadcast to {} {} expects the last axes of it in {}, got {} in {}", name_of(in.dtype()), in.shape(),
         name_of(compute_type(in.dtype())), shape, name_of(repeated.dtype()));
  Tensor y = empty_like(in);
  add_rows(in, repeated, 0, y);
  return y;
}
void AddBroadcast::backward(const Tensor& dy, const Saved<AddBroadcast>&, Grads& grads) const {
  if (grads.wanted(b)) grads[b] = sum_over_leading(dy, shape);
  if (grads.wanted(x)) pass_on(dy, grads[x]);
}
void AddBroadcast::rematerialize(const RematInputs<AddBroadcast>& from, const Tensor& out) const {
  add_rows(from.get<input(x)>(), from.get<input(b)>(), from.first_row(), out);
}

Tensor Mul::forward(std::span<const Tensor> inputs) const {
  expect_alike(name, inputs[a], inputs[b]);
  Tensor y = empty_like(inputs[a]);
  apply(formula::Mul{}, y, inputs[a], inputs[b]);
  return y;
}
void Mul::backward(Tensor dy, const Saved<Mul>& saved, Grads& grads) const {
  const auto write = [&](const Tensor& to, std::int64_t begin, std::int64_t end, const Tensor& other) {
    apply(formula::Mul{}, to.row_range(begin, end), dy.row_range(begin, end), other);
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
  apply(formula::Mul{}, out, from.get<input(a)>(), from.get<input(b)>());
}

Tensor Scale::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  apply(formula::Scale{factor}, y, inputs[x]);
  return y;
}
void Scale::backward(const Tensor& dy, const Saved<Scale>&, Grads& grads) const {
  grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
  apply(formula::Scale{factor}, grads[x], dy);
}
void Scale::rematerialize(const RematInputs<Scale>& from, const Tensor& out) const {
  apply(formula::Scale{factor}, out, from.get<input(x)>());
}

}  // namespace lacuna
