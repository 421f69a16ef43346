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

namespace {

/// Offsets [N + 1] of samples [begin, end), shifted to start at 0.
Tensor offsets_of_part(const Tensor& offsets, std::int64_t begin, std::int64_t end) {
  Tensor part = offsets.leading(begin, end + 1);
  if (begin == 0) return part;
  part = part.clone(Purpose::data);
  auto* const values = part.data<std::int64_t>();
  const std::int64_t first = values[0];
  for (std::int64_t i = 0; i < part.count(); ++i) values[i] -= first;
  return part;
}

}  // namespace

Batch Batch::part(std::int64_t begin, std::int64_t end) const {
  Batch views;
  for (const auto& [name, tensor] : *this) {
    if (const std::string* const offsets = packed_.find(name)) {
      const auto* const rows = at(*offsets).data<const std::int64_t>();
      views.set_packed(name, tensor.leading(rows[begin], rows[end]), *offsets);
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
