#include "models/text_encoder.h"

#include "nn/functional.h"
#include "ops/norms/l2_normalize.h"
#include "ops/shapes/embedding.h"

#include <algorithm>
#include <numeric>

namespace lacuna {

std::array<std::pair<std::string_view, TextHead>, 5> names_of(TextHead) {
  return {{{"classification", TextHead::classification},
           {"tokens", TextHead::tokens},
           {"span", TextHead::span},
           {"masked_lm", TextHead::masked_lm},
           {"embedding", TextHead::embedding}}};
}
std::array<std::pair<std::string_view, Pooling>, 2> names_of(Pooling) {
  return {{{"mean", Pooling::mean}, {"first", Pooling::first}}};
}

void check_text_head(const TextEncoderOptions& options, std::string_view width, HyperProblems& problems) {
  if (options.padding >= options.vocab_size)
    problems.add("pad_token_id",
                 fmt::format("`pad_token_id` {} is not in the vocabulary of {}", options.padding, options.vocab_size));
  if (options.hidden_size % options.heads != 0)
    problems.add(width, fmt::format("`{}` {} is not divisible by the {} attention heads", width, options.hidden_size,
                                    options.heads));
}

Names text_activations() { return {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"}; }
nn::Activation text_activation(std::string_view name) {
  if (name == "relu") return nn::Activation::relu;
  return name == "gelu" ? nn::Activation::gelu : nn::Activation::gelu_tanh;
}

std::int64_t outputs_of_head(const TextEncoderOptions& options) {
  switch (options.head) {
    case TextHead::span:
      return 2;
    case TextHead::masked_lm:
      return options.vocab_size;
    case TextHead::embedding:
      return options.hidden_size;
    default:
      return options.num_classes;
  }
}

SampleFields text_inputs(const TextEncoderOptions& options, std::int64_t most, std::int64_t types) {
  const std::int64_t longest = options.longest > 0 ? std::min(options.longest, most) : most;
  const auto field = [&](std::string name, std::int64_t below) {
    return SampleField{.name = std::move(name),
                       .dtype = DType::i64,
                       .shape = {longest},
                       .collation = Collation::packed,
                       .below = below};
  };
  SampleFields fields{field("tokens", options.vocab_size)};
  fields.front().kind = FieldKind::tokens;
  if (types > 0) fields.push_back(field("token_types", types));
  return fields;
}

Variable take_tokens(Inputs& inputs, const Sequences& sequences, std::int64_t most, Device device) {
  if (sequences.longest() > most)
    reject("a sequence of {} tokens: the model has {} positions; data.max_length cuts longer texts",
           sequences.longest(), most);
  return inputs.take("tokens", device).reshape({sequences.rows()});
}

Init text_table(Init values, std::int64_t padding) {
  return [values = std::move(values), padding](const Tensor& table, RandomStream stream) {
    values(table, stream);
    if (padding >= 0) table.leading(padding, padding + 1).fill(0);
  };
}

Variable whole_numbers(const std::vector<std::int64_t>& values, Device device) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  if (device == Device::meta) return Variable(Tensor::empty(shape, DType::i64, device));
  return Variable(Tensor::from(std::span<const std::int64_t>(values), shape, device));
}

Variable select_rows(Variable x, Variable rows) {
  if (!rows.defined()) return x;
  const Shape shape = x.shape();
  return apply(Embedding{.shape = shape, .dtype = x.dtype()}, std::move(x), std::move(rows), Variable());
}

Variable first_tokens(Variable x, const Sequences& sequences) {
  std::vector<std::int64_t> firsts;
  for (std::int64_t i = 0; i < sequences.count(); ++i) firsts.push_back(sequences.begin(i));
  const Device device = x.tensor().device();
  return select_rows(std::move(x), whole_numbers(firsts, device));
}

SequencesPtr one_token_each(const Sequences& sequences) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(sequences.count()) + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  return Sequences::packed(offsets);
}

Variable embeddings_of(const TextEncoderOptions& options, Variable pooled) {
  return options.normalize ? apply(L2Normalize{}, std::move(pooled)) : pooled;
}

}  // namespace lacuna
