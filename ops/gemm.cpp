#include "ops/gemm.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "ops/onednn_gemm.h"

namespace lacuna {
namespace {

constexpr std::int64_t workspace_elements = 512 * 1024;  // of a run of converted rows: 2 MiB stay in cache

/// Element (row, column) of a matrix lies at row · row_step + column · column_step.
template <class T>
struct Elements {
  T* data;
  std::int64_t row_step, column_step;

  T& operator()(std::int64_t row, std::int64_t column) const { return data[row * row_step + column * column_step]; }
};

template <class T>
Elements<T> elements(const Matrix& m) {
  T* const data = m.tensor.data<T>() + m.first;
  return m.transposed ? Elements<T>{data, 1, m.stride} : Elements<T>{data, m.stride, 1};
}

/// Part [begin, end) of the rows or of the columns that the product sees.
Matrix height_range(const Matrix& m, std::int64_t begin, std::int64_t end) {
  return m.transposed ? m.column_range(begin, end) : m.row_range(begin, end);
}
Matrix width_range(const Matrix& m, std::int64_t begin, std::int64_t end) {
  return m.transposed ? m.row_range(begin, end) : m.column_range(begin, end);
}

void product_f32(const Matrix& a, const Matrix& b, const Matrix& c, float alpha, bool add) {
  onednn::sgemm(c.rows, c.columns, a.width(), alpha, {a.tensor.data<float>() + a.first, a.stride, a.transposed},
                {b.tensor.data<float>() + b.first, b.stride, b.transposed}, add ? 1.0F : 0.0F,
                c.tensor.data<float>() + c.first, c.stride);
}

/// Rows [begin, end) of c, in double: for tests.
void product_f64(const Matrix& a, const Matrix& b, const Matrix& c, double alpha, bool add, std::int64_t begin,
                 std::int64_t end) {
  const auto left = elements<double>(a), right = elements<double>(b), out = elements<double>(c);
  const std::int64_t depth = a.width();
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) sum += left(i, k) * right(k, j);
      out(i, j) = alpha * sum + (add ? out(i, j) : 0.0);
    }
  }
}

/// Adds `bias` [columns] to each row of c.
template <class T>
void add_bias(const Matrix& c, const Tensor& bias) {
  T* const data = c.tensor.data<T>() + c.first;
  const T* const addend = bias.data<T>();
  parallel_for(c.rows, 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
#pragma omp simd
      for (std::int64_t j = 0; j < c.columns; ++j) data[i * c.stride + j] += addend[j];
    }
  });
}

/// `to` = `from` (+ `to`), element by element, converted through float. Both as stored.
void convert(const Matrix& from, const Matrix& to, bool add = false) {
  with_float_type(from.tensor.dtype(), [&]<class From>(Type<From>) {
    with_float_type(to.tensor.dtype(), [&]<class To>(Type<To>) {
      if constexpr (!std::is_same_v<From, double> && !std::is_same_v<To, double>) {
        const From* const in = from.tensor.data<From>() + from.first;
        To* const out = to.tensor.data<To>() + to.first;
        parallel_for(from.rows, 8, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const From* const source = in + i * from.stride;
            To* const target = out + i * to.stride;
            if (add) {
#pragma omp simd
              for (std::int64_t j = 0; j < from.columns; ++j)
                target[j] = static_cast<To>(to_compute(target[j]) + to_compute(source[j]));
            } else {
#pragma omp simd
              for (std::int64_t j = 0; j < from.columns; ++j) target[j] = static_cast<To>(to_compute(source[j]));
            }
          }
        });
      }
    });
  });
}

bool is_half_type(const Matrix& m) { return m.tensor.dtype() == DType::bf16 || m.tensor.dtype() == DType::f16; }

/// A densely packed f32 matrix of this one's stored extents at the start of `workspace`.
Matrix packed_like(const Matrix& m, const Tensor& workspace) {
  Matrix packed = m;
  packed.tensor = workspace;
  packed.first = 0;
  packed.stride = m.columns;
  return packed;
}

/// f32 workspace for a matrix that is not f32 already.
Tensor workspace_for(const Matrix& m) {
  if (!is_half_type(m)) return {};
  return Tensor::empty({m.rows * m.columns}, DType::f32, m.tensor.device(), Purpose::workspace);
}

/// The matrix in f32: itself, or converted into `workspace`.
Matrix in_f32(const Matrix& m, const Tensor& workspace) {
  if (!is_half_type(m)) return m;
  const Matrix packed = packed_like(m, workspace);
  convert(m, packed);
  return packed;
}

/// A product with halves among its matrices. Runs go along the rows of c, or along the summands where `a` is transposed
/// (a weight gradient: both operands come in rows of tokens).
void gemm_half(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const bool along_sum = a.transposed;
  const std::int64_t total = along_sum ? a.width() : a.height();
  const std::int64_t per_row = along_sum ? a.height() + b.width() : a.width() + c.columns;
  const std::int64_t run = std::clamp(workspace_elements / std::max<std::int64_t>(per_row, 1) / 64 * 64,
                                      std::int64_t{64}, std::max<std::int64_t>(total, 64));
  const std::int64_t first_run = std::min(run, total);
  const auto part_a = [&](std::int64_t begin, std::int64_t end) {
    return along_sum ? width_range(a, begin, end) : height_range(a, begin, end);
  };
  const auto part_b = [&](std::int64_t begin, std::int64_t end) { return along_sum ? height_range(b, begin, end) : b; };
  const auto part_c = [&](std::int64_t begin, std::int64_t end) { return along_sum ? c : c.row_range(begin, end); };

  const Tensor a_workspace = workspace_for(part_a(0, first_run));
  const Tensor b_workspace = workspace_for(part_b(0, first_run));
  const Tensor c_workspace = workspace_for(part_c(0, first_run));
  launch(c.tensor.device(), [&] {
    const bool half_c = is_half_type(c);
    const Matrix whole_b = along_sum ? b : in_f32(b, b_workspace);
    for (std::int64_t begin = 0; begin < total; begin += run) {
      const std::int64_t end = std::min(total, begin + run);
      const Matrix target = part_c(begin, end);
      const Matrix sums = half_c ? packed_like(target, c_workspace) : target;
      const bool add = (along_sum && begin > 0) || (options.add && !half_c);
      product_f32(in_f32(part_a(begin, end), a_workspace),
                  along_sum ? in_f32(part_b(begin, end), b_workspace) : whole_b, sums,
                  static_cast<float>(options.alpha), add);
      if (along_sum && end < total) continue;
      if (options.bias.defined()) add_bias<float>(sums, options.bias);
      if (half_c) convert(sums, target, options.add);
    }
  });
}

void check(const Matrix& a, const Matrix& b, const Matrix& c, const Tensor& bias) {
  expect(a.height() == c.rows && a.width() == b.height() && b.width() == c.columns && !c.transposed,
         "gemm: [{}, {}] by [{}, {}] does not give [{}, {}]", a.height(), a.width(), b.height(), b.width(), c.rows,
         c.columns);
  const auto wide = [](const Matrix& m) { return m.tensor.dtype() == DType::f64; };
  expect(wide(a) == wide(b) && wide(b) == wide(c), "gemm: f64 goes with f64 alone, got {} by {} into {}",
         name_of(a.tensor.dtype()), name_of(b.tensor.dtype()), name_of(c.tensor.dtype()));
  expect(!bias.defined() || bias.count() == c.columns, "gemm: expected a bias of {} elements, got {}", c.columns,
         bias.defined() ? bias.count() : 0);
}

}  // namespace

Matrix Matrix::t() const {
  Matrix m = *this;
  m.transposed = !transposed;
  return m;
}

Matrix Matrix::row_range(std::int64_t begin, std::int64_t end) const {
  Matrix m = *this;
  m.first += begin * stride;
  m.rows = end - begin;
  return m;
}

Matrix Matrix::column_range(std::int64_t begin, std::int64_t end) const {
  Matrix m = *this;
  m.first += begin;
  m.columns = end - begin;
  return m;
}

void gemm(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  check(a, b, c, options.bias);
  if (c.rows == 0 || c.columns == 0) return;
  if (is_half_type(a) || is_half_type(b) || is_half_type(c)) return gemm_half(a, b, c, options);
  launch(c.tensor.device(), [&] {
    if (c.tensor.dtype() == DType::f32) {
      product_f32(a, b, c, static_cast<float>(options.alpha), options.add);
      if (options.bias.defined()) add_bias<float>(c, options.bias);
    } else {
      parallel_for(c.rows, 16, [&](std::int64_t begin, std::int64_t end) {
        product_f64(a, b, c, options.alpha, options.add, begin, end);
      });
      if (options.bias.defined()) add_bias<double>(c, options.bias);
    }
  });
}

void gemm_batched(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const auto item = [&](const Matrix& all, std::int64_t i) {
    const std::int64_t rows = all.rows / std::max<std::int64_t>(batch, 1);
    return all.row_range(i * rows, (i + 1) * rows);
  };
  check(item(a, 0), item(b, 0), item(c, 0), options.bias);
  expect(!options.bias.defined(), "gemm_batched: a bias is not supported");
  if (c.rows == 0 || c.columns == 0) return;
  const std::int64_t workers = std::min<std::int64_t>(batch, threads());
  const auto workspaces = [&](const Matrix& all) {
    const Matrix one = item(all, 0);
    if (!is_half_type(one)) return Tensor();
    return Tensor::empty({workers, one.rows * one.columns}, DType::f32, all.tensor.device(), Purpose::workspace);
  };
  const Tensor a_workspace = workspaces(a), b_workspace = workspaces(b), c_workspace = workspaces(c);
  const auto own = [](const Tensor& workspace, std::int64_t worker) {
    return workspace.defined() ? workspace.leading(worker, worker + 1) : Tensor();
  };
  const auto product = [&](std::int64_t i, std::int64_t worker) {
    const Matrix target = item(c, i);
    if (target.tensor.dtype() == DType::f64) {
      product_f64(item(a, i), item(b, i), target, options.alpha, options.add, 0, target.rows);
      return;
    }
    const bool half_c = is_half_type(c);
    const Matrix sums = half_c ? packed_like(target, own(c_workspace, worker)) : target;
    product_f32(in_f32(item(a, i), own(a_workspace, worker)), in_f32(item(b, i), own(b_workspace, worker)), sums,
                static_cast<float>(options.alpha), options.add && !half_c);
    if (half_c) convert(sums, target, options.add);
  };
  launch(c.tensor.device(), [&] {
    if (batch >= threads())
      parallel_tasks(batch, product);
    else
      for (std::int64_t i = 0; i < batch; ++i) product(i, 0);  // each on all threads
  });
}

}  // namespace lacuna
