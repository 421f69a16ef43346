#include "data/sample.h"

#include <algorithm>

namespace lacuna {
namespace {

bool is_same_memory(const Tensor& a, const Tensor& b) { return a.storage() == b.storage() && a.offset() == b.offset(); }

}  // namespace

const SampleField& field_of(const SampleFields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &SampleField::name);
  if (found != fields.end()) return *found;
  std::string known;
  for (const SampleField& field : fields) known += (known.empty() ? "" : ", ") + field.name;
  fail("expected samples with `{}`, got {}", name, known.empty() ? "nothing" : known);
}

std::string lengths_of(const SampleField& field) {
  if (field.collation == Collation::stacked) return {};
  if (!field.lengths.empty()) return field.lengths;
  return field.collation == Collation::packed ? "offsets" : "key_lengths";
}

void Sample::begin(std::int64_t epoch_now, NamedTensors places) {
  epoch = epoch_now;
  origin.clear();
  for (const auto& entry : tensors_) give_back(entry.second);
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

void Sample::set(std::string_view name, Tensor value) {
  if (const Tensor* const before = tensors_.find(name)) give_back(*before);
  tensors_.set(name, std::move(value));
}

Tensor Sample::scratch(const Shape& shape, DType dtype) {
  const auto fits = [&](const Tensor& tensor) {
    return tensor.unique() && tensor.dtype() == dtype && tensor.shape() == shape;
  };
  if (const auto found = std::ranges::find_if(spare_, fits); found != spare_.end()) {
    Tensor tensor = *found;
    spare_.erase(found);
    return tensor;
  }
  const AllocationScope scope({Purpose::data, Label("sample"), {}});
  return Tensor::empty(shape, dtype, Device::cpu, Purpose::data);
}

void Sample::give_back(Tensor scratch) {
  const auto is_place = [&](const auto& entry) { return is_same_memory(entry.second, scratch); };
  if (std::ranges::any_of(places_, is_place)) return;
  constexpr std::size_t most = 4;  // images of many sizes would pile up
  if (spare_.size() == most) spare_.erase(spare_.begin());
  spare_.push_back(std::move(scratch));
}

}  // namespace lacuna
