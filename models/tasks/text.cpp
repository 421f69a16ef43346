#include "models/tasks/text.h"

#include <cmath>
#include <vector>

namespace lacuna {

LabelledTokens labelled_tokens(const Variable& labels, Device device, double share) {
  const Tensor& all = labels.tensor();
  expect(all.dtype() == DType::i64, "labels of tokens: expected i64, got {}", name_of(all.dtype()));
  if (device == Device::meta) {
    const auto count = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(all.count())));
    const auto made = [&] { return Variable(Tensor::empty({count}, DType::i64, Device::meta)); };
    return {made(), made()};
  }
  std::vector<std::int64_t> rows, found;
  for (std::int64_t i = 0; i < all.count(); ++i) {
    const std::int64_t label = all.data<const std::int64_t>()[i];
    if (label == no_label) continue;
    rows.push_back(i);
    found.push_back(label);
  }
  if (rows.empty()) reject("no token of the batch has a label: all are {}", no_label);
  const auto tensor = [&](const std::vector<std::int64_t>& values) {
    return Variable(Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)}, device));
  };
  return {tensor(rows), tensor(found)};
}

}  // namespace lacuna
