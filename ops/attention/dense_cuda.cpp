#include "ops/attention/dense_cuda.h"

#include "core/backend.h"
#include "ops/attention/dense_kernels.h"
#include "ops/cuda_libraries.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

using cuda::SampleRows;

std::int64_t stride_of(const TokenColumns& columns) { return columns.tokens.shape().back(); }
std::byte* data_of(const TokenColumns& columns) {
  return columns.tokens.raw() + columns.first * size_of(columns.tokens.dtype());
}

/// Whether cuDNN may be asked for these tokens.
bool fits(const DenseArguments& a, DType dtype) {
  constexpr std::int64_t unit = 8;  // of strides, in elements
  const auto is_aligned = [](const TokenColumns& columns) {
    return columns.tokens.defined() && columns.first % unit == 0 && stride_of(columns) % unit == 0;
  };
  if (!uses_cudnn() || !is_dense(a.head_dim, dtype) || !is_aligned(a.q) || !is_aligned(a.k) || !is_aligned(a.v))
    return false;
  if (a.rows != SampleRows::packed) return true;
  // One table of offsets serves q, y and their gradients, another one k, v and theirs.
  return stride_of(a.q) == a.heads * a.head_dim && stride_of(a.k) == a.kv_heads * a.head_dim &&
         stride_of(a.v) == stride_of(a.k) &&
         a.row(a.samples, 0) * stride_of(a.q) <= std::numeric_limits<std::int32_t>::max();
}

void copy_in(Device device, const Tensor& to, const void* from) {
  backend(device).copy_in(stream_of(device), to.raw(), from, static_cast<std::size_t>(to.bytes()));
}

/// Samples [first, first + what.samples) of a batch, as cuDNN is asked for them. Memory of forward serves backward.
class Part {
 public:
  Part(const DenseArguments& a, const cuda::DenseAttention& largest, std::int64_t first, Device device)
      : a_(a), device_(device), first_(first), samples_(largest.samples), memory_(largest, device) {
    if (a.rows != SampleRows::equal) fill_tables();
    if (largest.dropout) fill_mask(largest);
  }
  void run(const cuda::DenseAttention& what, cuda::DenseAttentionPointers pointers) const {
    const auto table = [&](std::int64_t i) { return memory_.tables.data<const std::int32_t>() + i * of_table(); };
    if (a_.rows != SampleRows::equal) {
      pointers.query_lengths = table(0);
      pointers.key_lengths = table(1);
    }
    if (a_.rows == SampleRows::packed) {
      pointers.query_offsets = table(2);
      pointers.key_offsets = table(3);
    }
    if (what.dropout) {
      pointers.mask = memory_.mask.raw();
      pointers.kept_scale = memory_.scales.data<const float>();
      pointers.kept_share = memory_.scales.data<const float>() + DenseMemory::unit;
    }
    cuda::attend(stream_of(device_), device_.index, what, pointers, memory_.workspace.raw());
  }
  /// Writes zeros to rows of padding. `data`: of the part's first row; rows [rows_of_sample, width] `stride` apart.
  void clear(void* data, std::int64_t stride, std::int64_t width, bool of_queries) const {
    if (padding_ == 0 || (of_queries && !a_.every_query)) return;
    const bool packed = a_.rows == SampleRows::packed;
    const auto* const tables = memory_.tables.data<const std::int32_t>();
    cuda::clear_padding(stream_of(device_), {.data = data,
                                             .width = width,
                                             .stride = stride,
                                             .samples = samples_,
                                             .rows = of_queries ? a_.query_rows : a_.keys,
                                             .lengths = tables + of_table(),
                                             .offsets = packed ? tables + 3 * of_table() : nullptr,
                                             .offset_stride = a_.kv_heads * a_.head_dim,
                                             .padding = padding_});
  }

 private:
  std::int64_t of_table() const { return DenseMemory::of_table(samples_); }
  void fill_tables() {
    const Sequences& sequences = *a_.sequences;
    std::vector<std::int32_t> values(static_cast<std::size_t>(4 * of_table()));
    const auto set = [&](std::int64_t table, std::int64_t i, std::int64_t value) {
      values[static_cast<std::size_t>(table * of_table() + i)] = static_cast<std::int32_t>(value);
    };
    for (std::int64_t i = 0; i < samples_; ++i) {
      const std::int64_t own = a_.first + first_ + i, length = sequences.length(own);
      set(0, i, a_.every_query ? length : a_.queries);
      set(1, i, length);
      padding_ = std::max(padding_, sequences.end(own) - sequences.begin(own) - length);
    }
    for (std::int64_t i = 0; i <= samples_ && a_.rows == SampleRows::packed; ++i) {
      const std::int64_t row = a_.row(first_ + i, 0) - a_.row(first_, 0);
      set(2, i, row * a_.heads * a_.head_dim);
      set(3, i, row * a_.kv_heads * a_.head_dim);
    }
    copy_in(device_, memory_.tables, values.data());
    const Tensor& lengths = sequences.lengths_on_device();
    if (!lengths.defined()) return;
    for (const std::int64_t table : {0, 1})
      if (table == 1 || a_.every_query)
        memory_.tables.leading(table * of_table(), table * of_table() + samples_)
            .copy_from(lengths.leading(a_.first + first_, a_.first + first_ + samples_));
    padding_ = a_.keys - 1;  // a sequence has a token at least
  }
  void fill_mask(const cuda::DenseAttention& what) {
    cuda::write_mask(stream_of(device_), what.dtype,
                     {.stream = a_.stream,
                      .samples = what.samples,
                      .heads = what.heads,
                      .queries = what.queries,
                      .keys = what.keys,
                      .first = a_.first + first_,
                      .draw_rows = a_.draw_rows,
                      .draw_columns = a_.draw_columns,
                      .dropped_below = static_cast<std::uint32_t>(std::min(std::ldexp(a_.dropout, 32), 4294967295.0))},
                     memory_.mask.raw());
    const auto kept = static_cast<float>(1 - a_.dropout);
    const std::array<float, 2 * DenseMemory::unit> scales{1 / kept, 0, 0, 0, kept};
    copy_in(device_, memory_.scales, scales.data());
  }

  const DenseArguments& a_;
  Device device_;
  std::int64_t first_, samples_;
  std::int64_t padding_ = 0;  // the most rows of a sample
  DenseMemory memory_;
};

/// Calls f(first, samples) for parts of the batch of `at_once` samples.
template <class F>
void for_parts(const DenseArguments& a, std::int64_t at_once, const F& f) {
  for (std::int64_t first = 0; first < a.samples; first += at_once) f(first, std::min(at_once, a.samples - first));
}

const RegisterKernel plan_of_cuda{dense_plan, DeviceKind::cuda,
                                  [](Device device, const cuda::DenseAttention& what, bool& has) {
                                    stream_of(device);  // makes it the current one
                                    has = uses_cudnn() && cuda::has_plan(device.index, what);
                                  }};

}  // namespace

Tensor forward_by_cudnn(const DenseArguments& a, const Tensor& y) {
  const Device device = y.device();
  if (!fits(a, y.dtype())) return {};
  cuda::DenseAttention what = dense_problem(a, y.dtype(), false);
  const std::int64_t part = cuda::samples_at_once(what), width = a.heads * a.head_dim, element = size_of(y.dtype());
  if (!cuda::all_parts(what, [&](const auto& one) { return cuda::has_plan(device.index, one); })) return {};
  Tensor log_sums = Tensor::empty({a.samples, a.heads, a.queries}, DType::f32, device);
  for_parts(a, part, [&](std::int64_t first, std::int64_t samples) {
    what.samples = samples;
    const Part own(a, what, first, device);
    const std::int64_t keys = a.row(first, a.keys);
    std::byte* const to = y.raw() + a.row(first, a.queries) * width * element;
    own.run(what, {.q = data_of(a.q) + a.row(first, a.query_rows) * stride_of(a.q) * element,
                   .k = data_of(a.k) + keys * stride_of(a.k) * element,
                   .v = data_of(a.v) + keys * stride_of(a.v) * element,
                   .y = to,
                   .log_sums = log_sums.data<float>() + first * a.heads * a.queries});
    own.clear(to, width, width, true);
  });
  return log_sums;
}

bool backward_by_cudnn(const DenseArguments& a, const Tensor& dy, const TokenColumns& dq, const TokenColumns& dk,
                       const TokenColumns& dv) {
  const Device device = dy.device();
  if (!fits(a, dy.dtype()) || !dq.tokens.defined() || !dk.tokens.defined() || !dv.tokens.defined()) return false;
  const bool again = a.needs_forward();
  cuda::DenseAttention forward = dense_problem(a, dy.dtype(), false), backward = dense_problem(a, dy.dtype(), true);
  backward.dq_stride = stride_of(dq);
  backward.dk_stride = stride_of(dk);
  backward.dv_stride = stride_of(dv);
  const std::int64_t part = cuda::samples_at_once(backward);
  if (!has_backward_plans(a, backward, [&](const auto& one) { return cuda::has_plan(device.index, one); }))
    return false;
  const std::int64_t width = a.heads * a.head_dim, element = size_of(dy.dtype());
  const Tensor y_again = Tensor::empty({again ? a.most_rows(part) : 0, width}, dy.dtype(), device, Purpose::workspace);
  const Tensor sums_again =
      Tensor::empty({again ? part : 0, a.heads, a.queries}, DType::f32, device, Purpose::workspace);
  if (a.query_rows > a.queries) dq.tokens.fill(0);  // rows that ask nothing
  for_parts(a, part, [&](std::int64_t first, std::int64_t samples) {
    forward.samples = backward.samples = samples;
    const Part own(a, backward, first, device);
    const std::int64_t queries = a.row(first, a.query_rows), keys = a.row(first, a.keys);
    const auto from = [&](const TokenColumns& columns, std::int64_t row) {
      return data_of(columns) + row * stride_of(columns) * element;
    };
    cuda::DenseAttentionPointers pointers{.q = from(a.q, queries),
                                          .k = from(a.k, keys),
                                          .v = from(a.v, keys),
                                          .y = y_again.raw(),
                                          .log_sums = sums_again.data<float>()};
    const std::int64_t place = a.row(first, a.queries) * width * element;  // in bytes
    if (again) {
      own.run(forward, pointers);
    } else {
      pointers.y = a.y.raw() + place;
      pointers.log_sums = a.log_sums.data<float>() + first * a.heads * a.queries;
    }
    pointers.dy = dy.data<const std::byte>() + place;
    pointers.dq = from(dq, queries);
    pointers.dk = from(dk, keys);
    pointers.dv = from(dv, keys);
    own.run(backward, pointers);
    own.clear(pointers.dq, stride_of(dq), width, true);
    own.clear(pointers.dk, stride_of(dk), a.kv_heads * a.head_dim, false);
    own.clear(pointers.dv, stride_of(dv), a.kv_heads * a.head_dim, false);
  });
  return true;
}

}  // namespace lacuna
