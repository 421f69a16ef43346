#include "ops/attention/rotary.h"

#include "core/parallel.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<Rotary> rotary;

/// y of one head: cos, sin [n] of its row; the rest of its `width` values stays. y may be x.
template <class T, class C>
void rotate_halves(std::int64_t n, std::int64_t width, const float* cos, const float* sin, C direction, const T* x,
                   T* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const C a = to_compute(x[i]), b = to_compute(x[n + i]), c = cos[i], s = direction * sin[i];
    y[i] = static_cast<T>(a * c - b * s);
    y[n + i] = static_cast<T>(b * c + a * s);
  }
  if (x != y) std::copy(x + 2 * n, x + width, y + 2 * n);
}
template <class T, class C>
void rotate_neighbours(std::int64_t n, std::int64_t width, const float* cos, const float* sin, C direction, const T* x,
                       T* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const C a = to_compute(x[2 * i]), b = to_compute(x[2 * i + 1]), c = cos[i], s = direction * sin[i];
    y[2 * i] = static_cast<T>(a * c - b * s);
    y[2 * i + 1] = static_cast<T>(b * c + a * s);
  }
  if (x != y) std::copy(x + 2 * n, x + width, y + 2 * n);
}

const RegisterKernel cpu_rotate{
    rotate_rows, DeviceKind::cpu, [](const Rotation& how, const Tensor& x, const Tensor& y) {
      const std::int64_t columns = y.shape().back(), width = columns / how.heads, n = how.table.cos.shape().back();
      const float *const cos = how.table.cos.data<const float>(), *const sin = how.table.sin.data<const float>();
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        const auto direction = static_cast<Compute<T>>(how.inverse ? -1 : 1);
        const T* const from = x.data<const T>();
        T* const to = y.data<T>();
        parallel_for(y.rows(), 16384 / columns + 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t angles = how.positions[static_cast<std::size_t>(row)] * n;
            for (std::int64_t at = row * columns; at < (row + 1) * columns; at += width)
              (how.neighbours
                   ? rotate_neighbours<T, Compute<T>>
                   : rotate_halves<T, Compute<T>>)(n, width, cos + angles, sin + angles, direction, from + at, to + at);
          }
        });
      });
    }};

/// Positions of rows [begin, end).
std::vector<std::int64_t> positions_of(const Rotary& op, std::int64_t begin, std::int64_t end) {
  const Sequences& sequences = *op.sequences;
  const std::int64_t last = op.table->cos.shape()[0] - 1;
  std::vector<std::int64_t> positions;
  positions.reserve(static_cast<std::size_t>(end - begin));
  std::int64_t i = begin < end ? sequences.at(begin) : 0;
  for (std::int64_t row = begin; row < end; ++row) {
    if (row == sequences.end(i)) ++i;
    const std::int64_t first = op.first_positions.empty() ? 0 : op.first_positions[static_cast<std::size_t>(i)];
    positions.push_back(std::min(first + row - sequences.begin(i), last));  // padding may be beyond the table
  }
  return positions;
}

}  // namespace

void check_rotary(const Rotary& op, const Shape& x) {
  expect(op.table != nullptr && op.sequences != nullptr && op.heads > 0, "rotary: expected a table, sequences, heads");
  const Sequences& sequences = *op.sequences;
  const std::int64_t positions = op.table->cos.shape()[0], n = op.table->cos.shape()[1];
  expect(x.rank() == 3 && x[0] == 1 && x[1] == sequences.rows() && x[2] % op.heads == 0 && 2 * n <= x[2] / op.heads,
         "rotary: expected x [1, {}, {} heads · d] with d at least {}, got {}", sequences.rows(), op.heads, 2 * n, x);
  expect(op.first_positions.empty() || static_cast<std::int64_t>(op.first_positions.size()) == sequences.count(),
         "rotary: expected a first position for each of {} sequences, got {}", sequences.count(),
         op.first_positions.size());
  for (std::int64_t i = 0; i < sequences.count(); ++i) {
    const std::int64_t first = op.first_positions.empty() ? 0 : op.first_positions[static_cast<std::size_t>(i)];
    expect(first >= 0 && first + sequences.length(i) <= positions,
           "rotary: sequence {} has positions {} to {}, and the table {}", i, first, first + sequences.length(i) - 1,
           positions);
  }
}

Rotation rotation_of(const Rotary& op, std::int64_t begin, std::int64_t end, bool inverse) {
  return {*op.table, positions_of(op, begin, end), op.heads, op.neighbours, inverse};
}

Tensor Rotary::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  check_rotary(*this, in.shape());
  Tensor y = empty_like(in);
  rotate_rows(y.device(), rotation_of(*this, 0, in.rows(), false), in, y);
  return y;
}
void Rotary::backward(Tensor dy, const Saved<Rotary>&, Grads& grads) const {
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  rotate_rows(dx.device(), rotation_of(*this, 0, dy.rows(), true), dy, dx);
  grads[x] = dx;
}
void Rotary::rematerialize(const RematInputs<Rotary>& from, const Tensor& out) const {
  const std::int64_t first = from.first_row();
  rotate_rows(out.device(), rotation_of(*this, first, first + out.rows(), false), from.get<input(x)>(), out);
}

}  // namespace lacuna
