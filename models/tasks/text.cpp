#include "models/tasks/text.h"

#include "nn/functional.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace lacuna {

Variable LabelledTokens::loss(Variable mean) const { return count > 0 ? std::move(mean) : 0.0 * std::move(mean); }

void LabelledTokens::add_to(Batch& batch) const {
  batch.set("rows", rows.tensor());
  batch.set("row_labels", labels.tensor());
  batch.set("row_count", Tensor::from(std::span(&count, 1), {1}));
}

std::optional<LabelledTokens> LabelledTokens::take(Inputs& batch, Device device) {
  if (!batch.contains("row_count")) return {};
  const std::int64_t count = *batch.take("row_count").tensor().data<const std::int64_t>();
  return LabelledTokens{batch.take("rows", device), batch.take("row_labels", device), count};
}

std::int64_t count_labelled(const Tensor& labels) {
  if (labels.device() == Device::meta) return labels.count();
  const auto* const label = labels.data<const std::int64_t>();
  return labels.count() - std::count(label, label + labels.count(), no_label);
}

LabelledTokens labelled_tokens(const Variable& labels, Device device, std::int64_t most) {
  const Tensor& all = labels.tensor();
  expect(all.dtype() == DType::i64, "labels of tokens: expected i64, got {}", name_of(all.dtype()));
  if (device == Device::meta) {
    const std::int64_t count = std::min(most, all.count());
    const auto made = [&] { return Variable(Tensor::empty({count}, DType::i64, Device::meta)); };
    return {made(), made(), count};
  }
  std::vector<std::int64_t> rows, found;
  for (std::int64_t i = 0; i < all.count(); ++i) {
    const std::int64_t label = all.data<const std::int64_t>()[i];
    if (label == no_label) continue;
    rows.push_back(i);
    found.push_back(label);
  }
  const std::int64_t count = std::ssize(rows);
  if (count == 0) rows = found = {0};
  const auto tensor = [&](const std::vector<std::int64_t>& values) {
    return Variable(Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)}, device));
  };
  return {tensor(rows), tensor(found), count};
}

TokenTexts::TokenTexts(Tensor spans, Tensor passage, Tensor offsets)
    : spans_(std::move(spans)), passage_(std::move(passage)), offsets_(std::move(offsets)) {}

std::optional<TokenTexts> TokenTexts::take(Inputs& batch) {
  if (!batch.contains("passage")) return {};
  const auto one = [&](std::string_view name) { return batch.take(name).tensor(); };
  return TokenTexts(one("spans"), one("passage"), one("passage_offsets"));
}

std::string_view TokenTexts::text(std::int64_t n, std::int64_t first, std::int64_t last) const {
  const auto* const spans = spans_.data<const std::int64_t>();
  const auto begin = static_cast<std::size_t>(spans[2 * first]), end = static_cast<std::size_t>(spans[2 * last + 1]);
  return text_of(passage_, offsets_, n).substr(begin, end - begin);
}

std::string_view text_of(const Tensor& bytes, const Tensor& offsets, std::int64_t n) {
  const auto* const at = offsets.data<const std::int64_t>() + n;
  return {reinterpret_cast<const char*>(bytes.data<const std::uint8_t>()) + at[0],
          static_cast<std::size_t>(at[1] - at[0])};
}

}  // namespace lacuna
