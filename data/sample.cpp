#include "data/sample.h"

#include <algorithm>

namespace lacuna {
namespace {

bool is_same_memory(const Tensor& a, const Tensor& b) { return a.storage() == b.storage() && a.offset() == b.offset(); }

}  // namespace

void Sample::begin(std::int64_t epoch_now, NamedTensors places) {
  epoch = epoch_now;
  copy = 0;
  origin.clear();
  random.reset();
  damaged.reset();
  tensors_.clear();
  places_ = std::move(places);
}

Tensor Sample::make(std::string_view name, const Shape& shape, DType dtype) {
  const Tensor *const place = places_.find(name), *const now = tensors_.find(name);
  if (place != nullptr && place->dtype() == dtype && place->shape() == shape &&
      (now == nullptr || !is_same_memory(*now, *place)))
    return *place;
  return scratch(shape, dtype);
}

void Sample::set(std::string_view name, Tensor value) { tensors_.set(name, std::move(value)); }

Tensor Sample::scratch(const Shape& shape, DType dtype) {
  const std::int64_t count = shape.count();
  const auto is_free = [&](const Tensor& tensor) { return tensor.unique() && tensor.dtype() == dtype; };
  const auto by_size = [](const Tensor& a, const Tensor& b) { return a.count() < b.count(); };
  std::ranges::stable_sort(memory_, by_size);
  const auto fits = [&](const Tensor& tensor) { return is_free(tensor) && tensor.count() >= count; };
  auto found = std::ranges::find_if(memory_, fits);
  if (found == memory_.end()) {
    // A buffer that is too small is freed, so that samples of many sizes do not accumulate.
    if (const auto small = std::ranges::find_if(memory_, is_free); small != memory_.end()) memory_.erase(small);
    const AllocationScope scope({Purpose::data, Label("sample"), {}});
    found = memory_.insert(memory_.end(), Tensor::empty({count}, dtype, Device::cpu, Purpose::data));
  }
  return found->leading(0, count).reshape(shape);
}

}  // namespace lacuna
