#include "apps/commands/reference_text.h"

#include "models/sequences.h"
#include "models/tasks/text.h"
#include "nn/functional.h"
#include "ops/losses/linear_cross_entropy.h"
#include "ops/losses/span_cross_entropy.h"

#include <vector>

namespace lacuna {
namespace {

std::vector<std::int64_t> load_numbers(const SafetensorsFile& file, std::string_view name, const Shape& shape) {
  const SafetensorsEntry* const entry = file.find(name);
  if (entry == nullptr || entry->dtype != DType::i64 || !(entry->shape == shape))
    reject("{}: expected `{}` i64 {}, got {}", file.path().string(), name, shape,
           entry == nullptr ? "none" : fmt::format("{} {}", entry->stored_dtype, entry->shape));
  const Tensor tensor = file.load(name);
  const auto* const data = tensor.data<const std::int64_t>();
  return {data, data + tensor.count()};
}

Tensor whole_numbers(const std::vector<std::int64_t>& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
}

}  // namespace

TextReference load_text_reference(const SafetensorsFile& file, const Model& model) {
  const std::string origin = file.path().string();
  const SafetensorsEntry* const entry = file.find("input/ids");
  if (entry == nullptr || entry->shape.rank() != 2)
    reject("{}: a reference file of text needs `input/ids` [N, L]", origin);
  const Shape shape = entry->shape;
  const std::vector<std::int64_t> ids = load_numbers(file, "input/ids", shape),
                                  mask = load_numbers(file, "input/mask", shape);
  const std::vector<std::int64_t> types =
      file.contains("input/types") ? load_numbers(file, "input/types", shape) : std::vector<std::int64_t>();
  std::vector<std::int64_t> tokens, token_types, offsets{0};
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t i = 0; i < shape[1]; ++i) {
      const auto at = static_cast<std::size_t>(n * shape[1] + i);
      if (mask[at] == 0) continue;
      if (i > 0 && mask[at - 1] == 0) reject("{}: `input/mask` of sequence {} has a gap", origin, n);
      tokens.push_back(ids[at]);
      if (!types.empty()) token_types.push_back(types[at]);
    }
    offsets.push_back(std::ssize(tokens));
  }
  TextReference reference;
  reference.batch.samples = shape[0];
  const SampleField* const ids_field = find_field(model.inputs(), FieldKind::tokens);
  if (ids_field == nullptr)
    reject("{}: `input/ids` is for models of text; this one takes {}", origin, to_string(model.inputs()));
  reference.batch.set(ids_field->name, whole_numbers(tokens));
  if (!types.empty()) reference.batch.set("token_types", whole_numbers(token_types));
  reference.batch.set("offsets", whole_numbers(offsets));
  if (!file.contains("target")) reject("{}: a reference file needs a tensor `target`", origin);
  reference.targets = Variable(file.load("target"));
  const Shape& target = reference.targets.shape();
  if (target == Shape{std::ssize(tokens)}) {
    auto [rows, labels] = labelled_tokens(reference.targets, Device::cpu);
    reference.batch.set("rows", rows.tensor());
    reference.targets = std::move(labels);
  } else if (!(target == Shape{shape[0]}) && !(target == Shape{shape[0], 2})) {
    reject("{}: expected `target` i64 [{}], [{}] or [{}, 2], got {}", origin, shape[0], tokens.size(), shape[0],
           target);
  }
  return reference;
}

TextResult text_result(Outputs outputs, const TextReference& reference) {
  TextResult result;
  if (outputs.contains("hidden")) {
    Variable hidden = outputs.take("hidden"), weight = outputs.take("decoder_weight"),
             bias = outputs.take("decoder_bias");
    {
      const NoGrad no_grad;
      result.logits = linear(hidden, weight, bias).reshape({hidden.shape()[1], weight.shape()[0]});
    }
    result.loss = apply(LinearCrossEntropy{}, std::move(hidden), std::move(weight), std::move(bias), reference.targets);
    return result;
  }
  if (!outputs.contains("logits")) reject("a reference file: the model's head has no loss");
  result.logits = outputs.take("logits");
  result.loss =
      reference.targets.shape().rank() == 2
          ? apply(SpanCrossEntropy{.sequences = sequences_of(reference.batch)}, result.logits, reference.targets)
          : cross_entropy(result.logits, reference.targets);
  return result;
}

}  // namespace lacuna
