#include "ops/shapes/embedding.h"

#include "core/coded/codec.h"
#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/operand.h"

namespace lacuna {
namespace {

const RegisterOp<Embedding> embedding;

template <class T, class Y>
void look_up(const Tensor& table, const Tensor& ids, const Tensor& base, const Tensor& y) {
  const std::int64_t width = y.shape().back(), count = table.rows();
  const auto* const id = ids.data<std::int64_t>();
  for (std::int64_t i = 0; i < ids.count(); ++i)
    if (id[i] < 0 || id[i] >= count)
      reject("embedding: element {} of the ids is {}, and the table has the rows 0 to {}", i, id[i], count - 1);
  const T* const rows = table.data<T>();
  const Y* const added = base.defined() ? base.data<Y>() : nullptr;
  Y* const out = y.data<Y>();
  parallel_for(ids.count(), 16384 / std::max<std::int64_t>(width, 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const row = rows + id[i] * width;
      Y* const to = out + i * width;
      if (added == nullptr) {
#pragma GCC ivdep
        for (std::int64_t j = 0; j < width; ++j) to[j] = static_cast<Y>(to_compute(row[j]));
      } else {
        const Y* const from = added + i * width;
#pragma GCC ivdep
        for (std::int64_t j = 0; j < width; ++j) to[j] = static_cast<Y>(to_compute(from[j]) + to_compute(row[j]));
      }
    }
  });
}

/// Each thread has columns of its own and all rows, so that a row's terms are added in the order of ids.
template <class Y, class T>
void scatter(const Tensor& dy, const Tensor& ids, std::int64_t padding, const Tensor& dtable) {
  const std::int64_t width = dy.shape().back(), rows = ids.count();
  const auto* const id = ids.data<std::int64_t>();
  const Y* const from = dy.data<Y>();
  T* const to = dtable.data<T>();
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
  parallel_for(
      width, rows * width < 16384 ? width + 1 : 0,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = 0; i < rows; ++i) {
          if (id[i] == padding) continue;
          const Y* const row = from + i * width;
          T* const sum = to + id[i] * width;
#pragma GCC ivdep
          for (std::int64_t j = begin; j < end; ++j) sum[j] = static_cast<T>(to_compute(sum[j]) + to_compute(row[j]));
        }
      },
      line);
}

/// Calls f(Type<A>, Type<B>) with the types of two tensors, which are f64 together or not at all.
template <class F>
void with_types(const Tensor& a, const Tensor& b, const F& f) {
  with_float_type(a.dtype(), [&]<class A>(Type<A> of_a) {
    with_float_type(b.dtype(), [&]<class B>(Type<B> of_b) {
      if constexpr (std::is_same_v<Compute<A>, Compute<B>>)
        f(of_a, of_b);
      else
        fail("embedding: {} does not go with {}", name_of(a.dtype()), name_of(b.dtype()));
    });
  });
}

const RegisterKernel forward_on_cpu{
    embedding_forward, DeviceKind::cpu,
    [](const Tensor& table, const Tensor& ids, const Tensor& base, const Tensor& y) {
      with_types(table, y, [&]<class T, class Y>(Type<T>, Type<Y>) { look_up<T, Y>(table, ids, base, y); });
    }};
const RegisterKernel backward_on_cpu{
    embedding_backward, DeviceKind::cpu,
    [](const Tensor& dy, const Tensor& ids, std::int64_t padding, const Tensor& dtable, const EmbeddingWorkspace&) {
      with_types(dy, dtable, [&]<class Y, class T>(Type<Y>, Type<T>) { scatter<Y, T>(dy, ids, padding, dtable); });
    }};

}  // namespace

EmbeddingWorkspace::EmbeddingWorkspace(std::int64_t rows, const Tensor& table) {
  if (!computes_on_cuda(table.device())) return;
  const std::int64_t parts = (rows + rows_of_part - 1) / rows_of_part, entries = table.rows();
  if (entries <= few_entries && parts > 1)
    partial = Tensor::empty({parts, entries, table.shape().back()}, DType::f32, table.device(), Purpose::workspace);
  else
    found = Tensor::empty({2, entries}, DType::i32, table.device(), Purpose::workspace);
}

Tensor Embedding::forward(std::span<const Tensor> inputs) const {
  const Tensor &from = inputs[table], &of = inputs[ids], &added = inputs[base];
  expect(from.shape() == shape && (shape.rank() == 2 || (shape.rank() == 3 && shape[0] == 1)) && shape.back() > 0,
         "embedding: expected a table {} of [V, C] or [1, V, C], got {}", shape, from.shape());
  expect(of.dtype() == DType::i64, "embedding: expected ids in i64, got {}", name_of(of.dtype()));
  const Shape out{1, of.count(), shape.back()};
  const DType type = from.dtype() == DType::f64           ? DType::f64
                     : from.is_coded() && added.defined() ? added.dtype()
                                                          : dtype;
  expect(!added.defined() || (added.shape() == out && added.dtype() == type),
         "embedding: expected a base {} in {}, got {} in {}", out, name_of(type),
         added.defined() ? added.shape() : Shape(), added.defined() ? name_of(added.dtype()) : "nothing");
  Tensor y = Tensor::empty(out, type, from.device());
  if (!from.is_coded()) {
    embedding_forward(y.device(), from, of, added, y);
    return y;
  }
  decode_rows(from, of, y);
  if (added.defined()) add_elements(y.device(), added, y, y);
  return y;
}

void Embedding::backward(Tensor dy, const Saved<Embedding>& saved, Grads& grads) const {
  if (grads.wanted(table)) {
    const Tensor of = saved.get<input(ids)>().whole();
    // A rank of 3 is a selection of activations, whose gradients have their type.
    const DType type = shape.rank() == 3 ? dy.dtype() : compute_type(dy.dtype());
    if (!grads[table].defined()) grads[table] = Tensor::zeros(shape, type, dy.device());
    embedding_backward(dy.device(), dy, of, padding, grads[table], {of.count(), grads[table]});
  }
  if (grads.wanted(base)) grads[base] = std::move(dy);
}

}  // namespace lacuna
