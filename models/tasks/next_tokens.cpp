#include "models/tasks/next_tokens.h"

#include <algorithm>

namespace lacuna {

SampleField token_labels(const SampleField& tokens) {
  SampleField labels = tokens;
  labels.name = "labels";
  labels.kind = FieldKind::label;
  labels.padding = static_cast<double>(no_label);
  return labels;
}

bool has_pairs(const DatasetInfo& data) {
  const auto found = std::ranges::find(data.fields, "sequence_lengths", &SampleField::name);
  return found != data.fields.end() && found->shape == Shape{2};
}

LabelledTokens next_labels(const Sequences& sequences, const Tensor& labels, Device device,
                           std::vector<std::int64_t>* counts) {
  const auto count = [&](std::int64_t n) {
    if (counts != nullptr) counts->push_back(n);
  };
  if (device == Device::meta) {
    for (std::int64_t n = 0; n < sequences.count(); ++n) count(sequences.length(n) - 1);
    return labelled_tokens(Variable(labels), device, sequences.rows() - sequences.count());
  }
  const Tensor next =
      Tensor::full(labels.shape(), static_cast<double>(no_label), DType::i64, Device::cpu, Purpose::data);
  const auto* const from = labels.data<const std::int64_t>();
  auto* const to = next.data<std::int64_t>();
  for (std::int64_t n = 0; n < sequences.count(); ++n) {
    std::int64_t labelled = 0;
    for (std::int64_t row = sequences.begin(n); row + 1 < sequences.begin(n) + sequences.length(n); ++row) {
      to[row] = from[row + 1];
      labelled += to[row] != no_label ? 1 : 0;
    }
    count(labelled);
  }
  return labelled_tokens(Variable(next), device);
}

}  // namespace lacuna
