#include "data/batch.h"

namespace lacuna {

Batch::Batch(std::initializer_list<Entry> tensors) : NamedTensors(tensors) {
  for (const auto& [name, tensor] : *this) {
    expect(tensor.shape().rank() > 0, "a batch's `{}` needs an axis of samples, got a scalar", name);
    if (samples == 0) samples = tensor.shape().front();
    expect(tensor.shape().front() == samples, "a batch of {} samples cannot have `{}` of shape {}", samples, name,
           tensor.shape());
  }
}

void Batch::set_packed(std::string_view name, Tensor tensor, std::string_view offsets) {
  set(name, std::move(tensor));
  packed_.set(name, std::string(offsets));
}

void Batch::set_edges(std::string_view name, Tensor tensor, std::string_view offsets, std::string_view indexes) {
  set_packed(name, std::move(tensor), offsets);
  indexes_.set(name, std::string(indexes));
}

namespace {

/// i64 or i32 values less `first`.
Tensor less(const Tensor& values, std::int64_t first) {
  if (first == 0) return values;
  Tensor shifted = values.clone(Purpose::data);
  const auto shift = [&]<class T>(T* all) {
    for (std::int64_t i = 0; i < shifted.count(); ++i) all[i] -= static_cast<T>(first);
  };
  if (shifted.dtype() == DType::i32)
    shift(shifted.data<std::int32_t>());
  else
    shift(shifted.data<std::int64_t>());
  return shifted;
}

/// Offsets [N + 1] of samples [begin, end), shifted to start at 0.
Tensor offsets_of_part(const Tensor& offsets, std::int64_t begin, std::int64_t end) {
  const Tensor part = offsets.leading(begin, end + 1);
  return begin == 0 ? part : less(part, part.data<const std::int64_t>()[0]);
}

}  // namespace

Batch Batch::part(std::int64_t begin, std::int64_t end) const {
  Batch views;
  for (const auto& [name, tensor] : *this) {
    if (const std::string* const offsets = packed_.find(name)) {
      const auto* const rows = at(*offsets).data<const std::int64_t>();
      const Tensor own = tensor.leading(rows[begin], rows[end]);
      if (const std::string* const indexes = indexes_.find(name))
        views.set_edges(name, less(own, at(*indexes).data<const std::int64_t>()[begin]), *offsets, *indexes);
      else
        views.set_packed(name, own, *offsets);
    } else if (std::ranges::any_of(packed_, [&name = name](const auto& entry) { return entry.second == name; })) {
      views.set(name, offsets_of_part(tensor, begin, end));
    } else {
      views.set(name, tensor.leading(begin, end));
    }
  }
  views.epoch = epoch;
  views.first = first + begin;
  views.samples = end - begin;
  return views;
}

std::int64_t Batch::bytes() const {
  std::int64_t sum = 0;
  for (const auto& entry : *this) sum += entry.second.bytes();
  return sum;
}

std::vector<Batch> split_batch(Batch batch, std::int64_t parts) {
  expect(parts > 0 && batch.samples % parts == 0, "a batch of {} samples cannot be cut into {} equal parts",
         batch.samples, parts);
  std::vector<Batch> cuts;
  if (parts == 1) {
    cuts.push_back(std::move(batch));
    return cuts;
  }
  const std::int64_t size = batch.samples / parts;
  for (std::int64_t i = 0; i < parts; ++i) cuts.push_back(batch.part(i * size, (i + 1) * size));
  return cuts;
}

}  // namespace lacuna
