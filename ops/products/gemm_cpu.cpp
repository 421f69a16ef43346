// Matrix products on the CPU.
#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/kernels/tile.h"
#include "ops/products/onednn_gemm.h"
#include "ops/products/onednn_matmul.h"
#include "ops/products/product_memory.h"

#include <algorithm>

namespace lacuna {
namespace {

using tile::lanes;
using tile::Left;
using tile::Vector;

/// Calls `f(Type<T>{})` with the element type, if its compute type is C.
template <class C, class F>
void with_type_in(DType dtype, F&& f) {
  with_float_type(dtype, [&]<class T>(Type<T>) {
    if constexpr (std::is_same_v<Compute<T>, C>) f(Type<T>{});
  });
}

template <class T>
T* data_of(const Matrix& m) {
  return m.tensor.data<T>() + m.first;
}

/// Blocked matrix product (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). b is
/// packed into panels that all threads share. Each thread computes its part of c by blocks of rows: the block of a
/// stays in L2, one panel of b in L1. Packing converts to the compute type C.
template <class C>
class BlockedProduct {
 public:
  BlockedProduct(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options)
      : a_(a), b_(b), c_(c), options_(options), depth_(a.width()) {
    const std::int64_t blocks = (depth_ + most_depth - 1) / most_depth;
    block_depth_ = (depth_ + blocks - 1) / blocks;
    // Partial sums are stored in c between steps over the depth; bf16 would round them, so bf16 takes one step.
    const std::int64_t fitting = std::max<std::int64_t>(1, packed_elements / (block_depth_ * width()));
    run_depth_ = is_half_type(c.tensor.dtype()) ? blocks * block_depth_ : std::min(blocks, fitting) * block_depth_;
  }

  /// Workspace elements: shared by all threads (packed b), and of each thread.
  std::int64_t shared() const { return std::min(run_depth_, depth_) * width(); }
  std::int64_t own() const { return left_elements() + sum_elements(); }

  /// Computes the product. `each(f)` runs f(part) for all parts and waits; it is called twice per step over the depth.
  template <class Each>
  void run(std::int64_t parts, C* shared_memory, Each&& each, C* own_memory) const {
    for (std::int64_t begin = 0; begin < depth_; begin += run_depth_) {
      const std::int64_t end = std::min(depth_, begin + run_depth_);
      each([&](std::int64_t index) { pack(begin, end, index, parts, shared_memory); });
      each([&](std::int64_t index) { multiply(begin, end, index, parts, shared_memory, own_memory + index * own()); });
    }
  }

 private:
  static constexpr std::int64_t most_depth = 256, block_rows = 96;
  static constexpr std::int64_t packed_elements = 1024 * 1024;
  static constexpr std::int64_t panel = 2 * lanes<C>;

  std::int64_t width() const { return tile::padded<C>(c_.columns); }
  bool copies_left() const { return a_.transposed || a_.tensor.dtype() != dtype_of<C>(); }
  std::int64_t left_elements() const {
    if (!copies_left()) return 0;
    return block_rows / tile::rows * tile::packed_group<C>(block_depth_);
  }
  std::int64_t sum_elements() const {
    return is_half_type(c_.tensor.dtype()) && block_depth_ < depth_ ? block_rows * width() : 0;
  }

  void pack(std::int64_t begin, std::int64_t end, std::int64_t index, std::int64_t parts, C* packed) const {
    const std::int64_t panels = (width() + panel - 1) / panel, blocks = (end - begin + block_depth_ - 1) / block_depth_;
    const Range range = lacuna::part(blocks * panels, index, parts);
    with_type_in<C>(b_.tensor.dtype(), [&]<class T>(Type<T>) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t k = begin + i / panels * block_depth_, column = i % panels * panel;
        const std::int64_t depth = std::min(block_depth_, end - k), columns = std::min(panel, c_.columns - column);
        C* const to = packed + (k - begin) * width() + column * depth;
        if (b_.transposed)
          tile::pack_transposed(data_of<T>(b_) + column * b_.stride + k, b_.stride, depth, columns, C(1), to);
        else
          tile::pack(data_of<T>(b_) + k * b_.stride + column, b_.stride, depth, columns, to);
      }
    });
  }

  void multiply(std::int64_t begin, std::int64_t end, std::int64_t index, std::int64_t parts, const C* packed,
                C* own) const {
    // With few rows, columns are split among threads instead.
    const bool by_columns = c_.rows < 4 * tile::rows * parts && width() > c_.rows;
    const Range rows = by_columns ? Range{0, c_.rows} : lacuna::part(c_.rows, index, parts, tile::rows);
    const Range columns = by_columns ? lacuna::part(c_.columns, index, parts, panel) : Range{0, c_.columns};
    if (columns.begin == columns.end) return;
    for (std::int64_t row = rows.begin; row < rows.end; row += block_rows) {
      const std::int64_t count = std::min(block_rows, rows.end - row);
      for (std::int64_t k = begin; k < end; k += block_depth_) {
        const std::int64_t depth = std::min(block_depth_, end - k);
        const C* const panels = packed + (k - begin) * width() + columns.begin * depth;
        with_type_in<C>(a_.tensor.dtype(), [&]<class T>(Type<T>) {
          if (a_.transposed) {
            tile::pack_left(data_of<T>(a_) + k * a_.stride + row, a_.stride, depth, count, own);
            block(Left<C, true>{own, tile::rows, tile::packed_group<C>(depth)}, row, count, k, depth, panels, columns,
                  own + left_elements());
          } else {
            block(tile::left_rows(data_of<T>(a_) + row * a_.stride + k, a_.stride, count, depth, own), row, count, k,
                  depth, panels, columns, own + left_elements());
          }
        });
      }
    }
  }

  /// Adds (a block [count, depth]) · (b rows [k, k + depth)) to rows [row, row + count) of c.
  template <bool transposed>
  void block(const Left<C, transposed>& left, std::int64_t row, std::int64_t count, std::int64_t k, std::int64_t depth,
             const C* panels, const Range& columns, C* sums) const {
    const auto alpha = static_cast<C>(options_.alpha);
    const bool first = k == 0, last = k + depth == depth_;
    const C* const bias = options_.bias.defined() && last ? options_.bias.data<C>() + columns.begin : nullptr;
    const std::int64_t n = columns.end - columns.begin, sums_stride = width();
    with_type_in<C>(c_.tensor.dtype(), [&]<class T>(Type<T>) {
      T* const out = data_of<T>(c_) + row * c_.stride + columns.begin;
      const std::int64_t stride = c_.stride;
      if (std::is_same_v<T, C> || (first && last)) {
        const bool add = options_.add || !first;
        tile::product(left, count, depth, panels, n, [=](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
          Vector<C> v = alpha * sum;
          if (bias != nullptr) v += tile::load_as(bias + j, n - j);
          if (add) v += tile::load_as(out + i * stride + j, n - j);
          tile::store_as(out + i * stride + j, v, n - j);
        });
        return;
      }
      const bool add = options_.add;
      tile::product(left, count, depth, panels, n, [=](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
        C* const partial = sums + i * sums_stride + j;
        Vector<C> v = alpha * sum;
        if (!first) v += tile::load(partial);
        if (!last) {
          tile::store(partial, v);
          return;
        }
        if (bias != nullptr) v += tile::load_as(bias + j, n - j);
        if (add) v += tile::load_as(out + i * stride + j, n - j);
        tile::store_as(out + i * stride + j, v, n - j);
      });
    });
  }

  Matrix a_, b_, c_;
  GemmOptions options_;
  std::int64_t depth_, block_depth_, run_depth_;
};

template <class C>
void gemm_in(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const BlockedProduct<C> product(a, b, c, options);
  constexpr std::int64_t worthwhile = 64 * 1024;  // multiplications
  const std::int64_t parts = c.rows * c.columns * a.width() < worthwhile ? 1 : threads();
  const Device device = c.tensor.device();
  const Tensor shared = Tensor::empty({product.shared()}, dtype_of<C>(), device, Purpose::workspace);
  const Tensor own = Tensor::empty({parts, product.own()}, dtype_of<C>(), device, Purpose::workspace);
  if (device == Device::meta) return;
  const auto each = [&](auto&& f) {
    if (parts == 1)
      f(0);
    else
      parallel_tasks(parts, [&](std::int64_t index, std::int64_t) { f(index); });
  };
  product.run(parts, shared.data<C>(), each, own.data<C>());
}

/// Whether BlockedProduct is faster than oneDNN for f32. oneDNN reaches 90 % of the peak rate, but half of that for
/// aᵀ·b if the rows of an operand are a large power of two apart: its blocks then share a few cache sets; packing
/// avoids it. Measured with oneDNN 2.6 on AVX2: docs/performance.md.
bool beats_onednn(const Matrix& a, const Matrix& b, const Matrix& c) {
  const auto collides = [](std::int64_t stride) { return stride >= 512 && (stride & (stride - 1)) == 0; };
  return a.transposed && !b.transposed && (collides(a.stride) || collides(b.stride)) &&
         std::min(c.rows, c.columns) < 512;
}

/// Adds `bias` [columns] to each row of an f32 matrix.
void add_bias(const Matrix& c, const float* bias) {
  float* const data = data_of<float>(c);
  parallel_for(c.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
#pragma omp simd
      for (std::int64_t j = 0; j < c.columns; ++j) data[i * c.stride + j] += bias[j];
    }
  });
}

void gemm_onednn(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  if (c.tensor.device() == Device::meta) return;
  onednn::sgemm(c.rows, c.columns, a.width(), static_cast<float>(options.alpha),
                {data_of<float>(a), a.stride, a.transposed}, {data_of<float>(b), b.stride, b.transposed},
                options.add ? 1.0F : 0.0F, data_of<float>(c), c.stride);
  if (options.bias.defined()) add_bias(c, options.bias.data<float>());
}

/// Whether the processor's bf16 instructions compute the product: an operand is bf16, and the work is worth the call.
/// The other may be a weight in f32, which is rounded, as PyTorch's autocast rounds it.
bool has_bf16_instructions_for(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  constexpr std::int64_t worthwhile = 256 * 1024;  // multiplications
  return onednn::multiplies_bf16() && options.alpha == 1 &&
         (a.tensor.dtype() == DType::bf16 || b.tensor.dtype() == DType::bf16) &&
         c.rows * c.columns * a.width() >= worthwhile;
}

/// A matrix in bf16: itself, or rounded without gaps between its rows.
Matrix in_bf16(const Matrix& m) {
  if (m.tensor.dtype() == DType::bf16) return m;
  Matrix rounded(Tensor::empty({m.rows, m.columns}, DType::bf16, m.tensor.device(), Purpose::workspace));
  rounded.transposed = m.transposed;
  if (m.tensor.device() == Device::meta) return rounded;
  const float* const from = data_of<float>(m);   // [rows, stride]
  bf16* const to = rounded.tensor.data<bf16>();  // [rows, columns]
  parallel_for(m.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < m.columns; j += lanes<float>)
        tile::store_as(to + i * m.columns + j, tile::load_as(from + i * m.stride + j, m.columns - j), m.columns - j);
  });
  return rounded;
}

onednn::TypedOperand typed(const Matrix& m) {
  std::byte* const first = m.tensor.raw();
  const std::int64_t bytes = m.first * size_of(m.tensor.dtype());
  return {first == nullptr ? nullptr : first + bytes, m.tensor.dtype(), m.stride, m.transposed};
}

/// Whether oneDNN's matmul beats its sgemm: with AVX-512 it does for a · bᵀ, by 5 to 25 %, unless a has few rows
/// or b very many (oneDNN 2.6, Zen 4).
bool is_faster_as_matmul(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  constexpr std::int64_t worthwhile = 4 * 1024 * 1024;                 // multiplications
  constexpr std::int64_t fewest = 16, longest = 8192, most = 1 << 20;  // oneDNN divides by zero with far more rows
  return !a.transposed && b.transposed && options.alpha == 1 && onednn::has_avx512() && c.columns <= longest &&
         c.rows >= fewest && c.rows <= most && c.rows * c.columns * a.width() >= worthwhile;
}
void gemm_matmul(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  onednn::matmul({c.rows, c.columns, a.width()}, typed(a), typed(b), options.add, options.bias, typed(c),
                 c.tensor.device());
}

/// c (bf16) += a · b: blocks of rows are computed in f32 and added while they are in cache. oneDNN's own addition to
/// bf16 takes twice the time where a is narrow.
void add_to_bf16(const Matrix& a, const Matrix& b, const Matrix& c) {
  constexpr std::int64_t cached = 256 * 1024;  // elements
  const std::int64_t block = std::clamp<std::int64_t>(cached / c.columns / 64 * 64, 64, c.rows);
  Matrix product(Tensor::empty({block, c.columns}, DType::f32, c.tensor.device(), Purpose::workspace));
  for (std::int64_t begin = 0; begin < c.rows; begin += block) {
    const std::int64_t end = std::min(c.rows, begin + block);
    const Matrix to = product.row_range(0, end - begin);
    const Matrix from = a.transposed ? a.column_range(begin, end) : a.row_range(begin, end);
    onednn::matmul({to.rows, c.columns, a.width()}, typed(from), typed(b), false, {}, typed(to), c.tensor.device());
    if (c.tensor.device() == Device::meta) continue;
    parallel_for(to.rows, 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const float* const sums = data_of<float>(to) + i * to.stride;  // [columns]
        bf16* const row = data_of<bf16>(c) + (begin + i) * c.stride;   // [columns]
        for (std::int64_t j = 0; j < c.columns; j += lanes<float>) {
          const std::int64_t count = c.columns - j;
          tile::store_as(row + j, tile::load_as(row + j, count) + tile::load_as(sums + j, count), count);
        }
      }
    });
  }
}

void gemm_in_bf16(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const Matrix left = in_bf16(a), right = in_bf16(b);
  if (options.add && c.tensor.dtype() == DType::bf16 && !options.bias.defined()) return add_to_bf16(left, right, c);
  onednn::matmul({c.rows, c.columns, a.width()}, typed(left), typed(right), options.add, options.bias, typed(c),
                 c.tensor.device());
}

void gemm_on_cpu(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const auto is_f32 = [](const Matrix& m) { return m.tensor.dtype() == DType::f32; };
  if (c.tensor.dtype() == DType::f64)
    gemm_in<double>(a, b, c, options);
  else if (is_f32(a) && is_f32(b) && is_f32(c) && is_faster_as_matmul(a, b, c, options))
    gemm_matmul(a, b, c, options);
  else if (is_f32(a) && is_f32(b) && is_f32(c) && !beats_onednn(a, b, c))
    gemm_onednn(a, b, c, options);
  else if (has_bf16_instructions_for(a, b, c, options))
    gemm_in_bf16(a, b, c, options);
  else
    gemm_in<float>(a, b, c, options);
  if (options.addend.defined()) add_elements(c.tensor.device(), c.tensor, options.addend, c.tensor);
}

/// A product on each thread, or all threads on each product if there are fewer products than threads.
template <class C>
void gemm_batched_on_cpu(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c,
                         const GemmOptions& options) {
  if (batch < threads()) {
    for (std::int64_t i = 0; i < batch; ++i) gemm_on_cpu(a.item(i, batch), b.item(i, batch), c.item(i, batch), options);
    return;
  }
  const BlockedProduct<C> one(a.item(0, batch), b.item(0, batch), c.item(0, batch), options);
  const std::int64_t size = tile::round_up(one.shared(), lanes<C>) + one.own();
  const Tensor workspace = Tensor::empty({threads(), size}, dtype_of<C>(), c.tensor.device(), Purpose::workspace);
  if (c.tensor.device() == Device::meta) return;
  parallel_tasks(batch, [&](std::int64_t i, std::int64_t thread) {
    C* const memory = workspace.data<C>() + thread * size;
    BlockedProduct<C>(a.item(i, batch), b.item(i, batch), c.item(i, batch), options)
        .run(
            1, memory, [](auto&& f) { f(0); }, memory + tile::round_up(one.shared(), lanes<C>));
  });
}

const RegisterKernel cpu_gemm{gemm_kernel, DeviceKind::cpu, gemm_on_cpu};
const RegisterKernel planned_gemm{gemm_kernel, DeviceKind::meta,
                                  [](const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
                                    if (computes_on_cuda(c.tensor.device()))
                                      ProductMemory(a, b, c, options);
                                    else
                                      gemm_on_cpu(a, b, c, options);
                                  }};
const RegisterKernel cpu_gemm_batched{
    gemm_batched_kernel,
    {DeviceKind::cpu, DeviceKind::meta},
    [](std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
      if (computes_on_cuda(c.tensor.device())) {
        ProductMemory(a, b, c, options);
        return;
      }
      with_compute_type(compute_type(c.tensor.dtype()),
                        [&]<class C>(Type<C>) { gemm_batched_on_cpu<C>(batch, a, b, c, options); });
    }};

}  // namespace
}  // namespace lacuna
