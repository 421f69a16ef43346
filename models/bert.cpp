#include "models/bert.h"

#include "models/registry.h"
#include "models/sequences.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/region.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/sequence_attention.h"
#include "ops/pooling/sequence_mean.h"
#include "ops/shapes/embedding.h"

#include <algorithm>

namespace lacuna {
namespace {

nn::LinearOptions linear_options(const BertOptions& options) {
  return {.init = {init::normal(options.initializer_range), init::constant(0)}};
}

/// Names that are there.
std::vector<std::string> paths(std::initializer_list<std::string_view> names) {
  std::vector<std::string> all;
  for (const std::string_view name : names)
    if (!name.empty()) all.emplace_back(name);
  return all;
}

std::vector<std::string> mlm_paths(const TextNames& names) {
  return paths({names.mlm_modules[0], names.mlm_modules[1], names.mlm_modules[2]});
}

std::vector<std::string> heads_of(const BertOptions& options) {
  switch (options.head) {
    case TextHead::classification:
      return {std::string(options.names.class_output)};
    case TextHead::tokens:
      return {"classifier"};
    case TextHead::span:
      return {"qa_outputs"};
    case TextHead::masked_lm:
      return mlm_paths(options.names);
    default:
      return {};
  }
}
/// The tensors of other heads in the family's files.
std::vector<std::string> other_heads_of(const BertOptions& options) {
  const TextNames& names = options.names;
  std::vector<std::string> all = mlm_paths(names), own = heads_of(options);
  for (std::string& path : paths({"classifier", "qa_outputs", names.class_output, names.class_module, names.pooler}))
    all.push_back(std::move(path));
  if (options.head == TextHead::classification) own.emplace_back(names.class_module);
  std::erase_if(all, [&](const std::string& path) { return std::ranges::find(own, path) != own.end(); });
  return all;
}

std::vector<std::string> optional_parts_of(const BertOptions& options) {
  if (options.head == TextHead::classification) return {std::string(options.names.class_module)};
  return {};
}

}  // namespace

/// The tokens of a batch, and those that are left where only first tokens are read.
struct Bert::Layout {
  SequencesPtr all, firsts;
};

struct Bert::Embeddings final : Module {
  Embeddings(Module& parent, const BertOptions& options)
      : Module(parent, std::string(options.names.base) + ".embeddings"),
        words(*this, "word_embeddings.weight", {options.vocab_size, options.hidden_size},
              text_table(init::normal(options.initializer_range), options.padding)),
        positions(*this, "position_embeddings.weight", {options.positions, options.hidden_size},
                  init::normal(options.initializer_range)),
        norm(*this, "LayerNorm", options.hidden_size, options.norm_eps),
        dropout(*this, "dropout", options.dropout),
        padding(options.padding),
        first_position(options.first_position) {
    words.allow_few_bits();
    positions.allow_few_bits();
    if (options.has_types)
      types.emplace(*this, "token_type_embeddings.weight", Shape{options.types, options.hidden_size},
                    init::normal(options.initializer_range));
  }

  /// tokens and token_types of T elements, the latter undefined for all 0, to [1, T, C].
  Variable forward(Variable tokens, Variable token_types, const SequencesPtr& sequences) const {
    const Scope scope(*this);
    const std::int64_t rows = sequences->rows(), last = positions.shape()[0] - 1;  // padding may be beyond it
    std::vector<std::int64_t> places;                                              // rows of the table of positions
    for (std::int64_t i = 0; i < sequences->count(); ++i)
      for (std::int64_t row = sequences->begin(i); row < sequences->end(i); ++row)
        places.push_back(std::min(first_position + row - sequences->begin(i), last));
    const Device device = context().device;
    Variable x = look_up(words, std::move(tokens), {}, padding);
    if (types) {
      if (!token_types.defined())
        token_types = whole_numbers(std::vector<std::int64_t>(static_cast<std::size_t>(rows)), device);
      x = look_up(*types, std::move(token_types), std::move(x), -1);
    }
    x = look_up(positions, whole_numbers(places, device), std::move(x), -1);
    return dropout.forward(norm.forward(std::move(x)), sequences);
  }
  Variable look_up(const Parameter& table, Variable ids, Variable base, std::int64_t without_gradient) const {
    return apply(Embedding{.shape = table.shape(), .padding = without_gradient, .dtype = context().dtype},
                 table.variable(), std::move(ids), std::move(base));
  }

  Parameter words, positions;
  std::optional<Parameter> types;
  nn::LayerNorm norm;
  nn::Dropout dropout;
  std::int64_t padding, first_position;
};

/// LN(x + attention), then LN(· + MLP): the norms stand behind the additions.
class Bert::Layer final : public Module {
 public:
  Layer(Module& parent, std::string_view name, const BertOptions& options)
      : Module(parent, name),
        heads_(options.heads),
        positions_(options.most_tokens()),
        activation_(options.activation),
        query_(*this, options.names.query, options.hidden_size, options.hidden_size, linear_options(options)),
        key_(*this, options.names.key, options.hidden_size, options.hidden_size, linear_options(options)),
        value_(*this, options.names.value, options.hidden_size, options.hidden_size, linear_options(options)),
        attention_dropout_(*this, "attention.dropout", options.attention_dropout),
        attention_output_(*this, options.names.attention_output, options.hidden_size, options.hidden_size,
                          linear_options(options)),
        output_dropout_(*this, "attention.output.dropout", options.dropout),
        attention_norm_(*this, options.names.attention_norm, options.hidden_size, options.norm_eps),
        fc1_(*this, options.names.fc1, options.hidden_size, options.intermediate_size, linear_options(options)),
        fc2_(*this, options.names.fc2, options.intermediate_size, options.hidden_size, linear_options(options)),
        dropout_(*this, "output.dropout", options.dropout),
        output_norm_(*this, options.names.output_norm, options.hidden_size, options.norm_eps) {
    set_role(Role::block);
  }

  /// x [1, T, C] to [1, T, C], or to the first tokens [1, N, C] of the sequences.
  Variable forward(Variable x, const Layout& layout, bool only_first) const {
    return run_region(*this, std::move(x), [this, layout, only_first](Variable in) {
      const Scope scope(*this);
      return transform(std::move(in), layout, only_first);
    });
  }

 private:
  Variable transform(Variable x, const Layout& layout, bool only_first) const {
    Variable k = key_.forward(x, {}, layout.all), v = value_.forward(x, {}, layout.all);
    if (only_first) x = first_tokens(std::move(x), *layout.all);
    const SequencesPtr& rows = only_first ? layout.firsts : layout.all;
    Variable mixed = apply(SequenceAttention{.heads = heads_,
                                             .sequences = layout.all,
                                             .queries = only_first ? 1 : 0,
                                             .dropout = attention_dropout_.current_rate(),
                                             .stream = attention_dropout_.mask_stream(),
                                             .positions = positions_},
                           query_.forward(x, {}, rows), std::move(k), std::move(v));
    x = attention_norm_.forward(add_branch(
        std::move(x), output_dropout_,
        [&](Variable to) { return attention_output_.forward(std::move(mixed), {}, rows, std::move(to)); }, rows));
    Variable hidden = nn::activate(activation_, fc1_.forward(x, {}, rows));
    return output_norm_.forward(add_branch(
        std::move(x), dropout_, [&](Variable to) { return fc2_.forward(std::move(hidden), {}, rows, std::move(to)); },
        rows));
  }

  std::int64_t heads_, positions_;
  nn::Activation activation_;
  nn::Linear query_, key_, value_;
  nn::Dropout attention_dropout_;
  nn::Linear attention_output_;
  nn::Dropout output_dropout_;
  nn::LayerNorm attention_norm_;
  nn::Linear fc1_, fc2_;
  nn::Dropout dropout_;
  nn::LayerNorm output_norm_;
};

Bert::Bert(const ModelContext& context, const BertOptions& options)
    : Model(context, {.inputs = text_inputs(options, options.most_tokens(), options.has_types ? options.types : 0),
                      .num_classes = outputs_of_head(options),
                      .heads = heads_of(options),
                      .other_heads = other_heads_of(options),
                      .optional_parts = optional_parts_of(options)}),
      options_(options),
      embeddings_(std::make_unique<Embeddings>(*this, options)),
      layers_([&] {
        std::vector<std::unique_ptr<Layer>> layers;
        for (std::int64_t i = 0; i < options.layers; ++i)
          layers.push_back(std::make_unique<Layer>(
              *this, fmt::format("{}.{}.{}", options.names.base, options.names.layers, i), options));
        return layers;
      }()),
      head_dropout_(*this, "dropout", options.head_dropout) {
  const nn::LinearOptions linear = linear_options(options);
  const std::int64_t width = options.hidden_size;
  switch (options.head) {
    case TextHead::classification:
      if (options.drops_before_dense) dense_dropout_.emplace(*this, "dense_dropout", options.head_dropout);
      class_dense_.emplace(*this, options.names.class_dense, width, width, linear);
      classifier_.emplace(*this, options.names.class_output, width, options.num_classes, linear);
      break;
    case TextHead::tokens:
      classifier_.emplace(*this, "classifier", width, options.num_classes, linear);
      break;
    case TextHead::span:
      classifier_.emplace(*this, "qa_outputs", width, 2, linear);
      break;
    case TextHead::masked_lm:
      mlm_dense_.emplace(*this, options.names.mlm_dense, width, width, linear);
      mlm_norm_.emplace(*this, options.names.mlm_norm, width, options.norm_eps);
      mlm_bias_.emplace(*this, options.names.mlm_bias, Shape{options.vocab_size}, init::constant(0));
      break;
    case TextHead::embedding:
      break;
  }
}

Bert::~Bert() = default;

bool Bert::reads_first_tokens() const {
  return options_.head == TextHead::classification ||
         (options_.head == TextHead::embedding && options_.pooling != Pooling::mean);
}

Variable Bert::encode(Inputs& inputs, const Layout& layout) const {
  const Device device = context().device;
  Variable tokens = take_tokens(inputs, *layout.all, options_.most_tokens(), device);
  Variable types =
      inputs.contains("token_types") ? inputs.take("token_types", device).reshape({layout.all->rows()}) : Variable();
  Variable x = embeddings_->forward(std::move(tokens), std::move(types), layout.all);
  const Layer* const last = layers_.back().get();
  return run_sequence(layers_, std::move(x), [this, layout, last](const Layer& layer, Variable in) {
    return layer.forward(std::move(in), layout, &layer == last && reads_first_tokens());
  });
}

Outputs Bert::forward(Inputs inputs) {
  const Scope scope(*this);
  const SequencesPtr sequences = sequences_of(inputs);
  const Layout layout{sequences, one_token_each(*sequences)};
  Variable rows = inputs.contains("rows") ? inputs.take("rows", context().device) : Variable();
  Variable x = encode(inputs, layout);
  const auto by_sequence = [&](Variable tokens) { return tokens.reshape({layout.all->count(), options_.hidden_size}); };
  Outputs outputs;
  switch (options_.head) {
    case TextHead::classification: {
      x = by_sequence(std::move(x));
      if (dense_dropout_) x = dense_dropout_->forward(std::move(x));
      Variable pooled = class_dense_->forward(std::move(x));
      pooled = options_.has_tanh ? tanh(std::move(pooled)) : relu(std::move(pooled));
      outputs.set("logits", classifier_->forward(head_dropout_.forward(std::move(pooled))));
      break;
    }
    case TextHead::tokens: {
      x = select_rows(head_dropout_.forward(std::move(x), layout.all), std::move(rows));
      const std::int64_t count = x.shape()[1];
      outputs.set("logits", classifier_->forward(std::move(x)).reshape({count, options_.num_classes}));
      break;
    }
    case TextHead::span:
      if (options_.drops_before_span) x = head_dropout_.forward(std::move(x), layout.all);
      outputs.set("logits", classifier_->forward(std::move(x)));
      break;
    case TextHead::masked_lm: {
      x = mlm_dense_->forward(select_rows(std::move(x), std::move(rows)));
      outputs.set("hidden", mlm_norm_->forward(nn::activate(options_.mlm_activation, std::move(x))));
      outputs.set("decoder_weight", embeddings_->words.variable());
      outputs.set("decoder_bias", mlm_bias_->variable());
      break;
    }
    case TextHead::embedding:
      x = options_.pooling == Pooling::mean ? apply(SequenceMean{.sequences = layout.all}, std::move(x))
                                            : by_sequence(std::move(x));
      outputs.set("embeddings", embeddings_of(options_, std::move(x)));
      break;
  }
  return outputs;
}

namespace {

constexpr TextNames bert_names{.width = "hidden_size",
                               .base = "bert",
                               .layers = "encoder.layer",
                               .query = "attention.self.query",
                               .key = "attention.self.key",
                               .value = "attention.self.value",
                               .attention_output = "attention.output.dense",
                               .attention_norm = "attention.output.LayerNorm",
                               .fc1 = "intermediate.dense",
                               .fc2 = "output.dense",
                               .output_norm = "output.LayerNorm",
                               .mlm_dense = "cls.predictions.transform.dense",
                               .mlm_norm = "cls.predictions.transform.LayerNorm",
                               .mlm_bias = "cls.predictions.bias",
                               .class_dense = "bert.pooler.dense",
                               .class_output = "classifier",
                               .mlm_modules = {"cls"},
                               .class_module = "bert.pooler"};

struct BertFamily : BertOptions {
  std::string hidden_act = "gelu";
  std::optional<double> classifier_dropout{};

  BertFamily() { names = bert_names; }
  static Fields fields() {
    using B = BertFamily;
    return Fields{field<B>("vocab_size", &B::vocab_size, count_range, "size of the vocabulary"),
                  field<B>("hidden_size", &B::hidden_size, count_range, "width of the tokens"),
                  field<B>("num_hidden_layers", &B::layers, text_layers, "number of layers"),
                  field<B>("num_attention_heads", &B::heads, count_range, "attention heads"),
                  field<B>("intermediate_size", &B::intermediate_size, count_range, "hidden width of the MLP"),
                  field<B>("max_position_embeddings", &B::positions, count_range, "longest sequence in tokens"),
                  field<B>("type_vocab_size", &B::types, count_range, "number of token types"),
                  field<B>("pad_token_id", &B::padding, up_to(0x7fffffff), "id of the padding token"),
                  field<B>("hidden_act", &B::hidden_act, one_of(text_activations), "activation function of the MLP"),
                  field<B>("hidden_dropout_prob", &B::dropout, rate_range, fits_weights, "dropout after projections"),
                  field<B>("attention_probs_dropout_prob", &B::attention_dropout, rate_range, fits_weights,
                           "dropout of attention probabilities"),
                  field<B>("classifier_dropout", &B::classifier_dropout, rate_range, fits_weights,
                           "dropout before the head; by default hidden_dropout_prob"),
                  field<B>("initializer_range", &B::initializer_range, fits_weights,
                           "standard deviation of initial weights"),
                  field<B>("layer_norm_eps", &B::norm_eps, "epsilon of the norms")} +
           text_head_rows<B>();
  }
  void check(HyperProblems& problems) {
    if (!classifier_dropout) classifier_dropout = dropout;
    head_dropout = *classifier_dropout;
    activation = mlm_activation = text_activation(hidden_act);
    check_text_head(*this, names.width, problems);
  }
};

const RegisterFamily<Bert, BertFamily> bert("bert", "random_tokens");

std::vector<HyperParameter> sized(std::int64_t width, std::int64_t layers, std::int64_t heads,
                                  std::vector<HyperParameter> more = {}) {
  std::vector<HyperParameter> values{{"hidden_size", width},
                                     {"num_hidden_layers", layers},
                                     {"num_attention_heads", heads},
                                     {"intermediate_size", 4 * width}};
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

const std::vector<HyperParameter> cased{{"vocab_size", std::int64_t{28996}}};
const std::vector<HyperParameter> sentences{{"head", "embedding"}};

const RegisterPreset bert_presets[] = {
    {"bert_tiny", "bert", sized(128, 2, 2)},
    {"bert_mini", "bert", sized(256, 4, 4)},
    {"bert_small", "bert", sized(512, 4, 8)},
    {"bert_medium", "bert", sized(512, 8, 8)},
    {"bert_base", "bert", sized(768, 12, 12)},
    {"bert_base_cased", "bert", sized(768, 12, 12, cased)},
    {"bert_large", "bert", sized(1024, 24, 16)},
    {"bert_large_cased", "bert", sized(1024, 24, 16, cased)},
    {"minilm_l6_h384", "bert", sized(384, 6, 12)},
    {"minilm_l12_h384", "bert", sized(384, 12, 12)},
    {"all_minilm_l6_v2", "bert", sized(384, 6, 12, sentences)},
    {"all_minilm_l12_v2", "bert", sized(384, 12, 12, sentences)},
};

}  // namespace
}  // namespace lacuna
