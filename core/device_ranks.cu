#include "core/block.h"
#include "core/device_ranks_cuda.h"

namespace lacuna::cuda {
namespace {

/// Each thread sums one column.
template <class T>
struct AddRows {
  static constexpr int threads = 256;
  const T* rows;
  std::int64_t count, width;
  T* sum;
  LACUNA_DEVICE void operator()(const Block<AddRows>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= width) return;
    T value = rows[i];
    for (std::int64_t row = 1; row < count; ++row)
      value = static_cast<T>(to_compute(value) + to_compute(rows[row * width + i]));
    sum[i] = value;
  }
};

template <class T>
void add(Stream stream, const void* rows, std::int64_t count, std::int64_t width, void* sum) {
  run(stream, divide_up(width, AddRows<T>::threads),
      AddRows<T>{.rows = static_cast<const T*>(rows), .count = count, .width = width, .sum = static_cast<T*>(sum)});
}

}  // namespace

void add_rows_in_order(Stream stream, DType type, const void* rows, std::int64_t count, std::int64_t width, void* sum) {
  if (type == DType::f64) return add<double>(stream, rows, count, width, sum);
  with_cuda_type(type, [&]<class T>(Type<T>) { add<T>(stream, rows, count, width, sum); });
}

}  // namespace lacuna::cuda
