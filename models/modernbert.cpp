#include "models/modernbert.h"

#include "models/registry.h"
#include "models/sequences.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/region.h"
#include "ops/attention/rotary.h"
#include "ops/attention/sequence_attention.h"
#include "ops/pooling/sequence_mean.h"
#include "ops/shapes/embedding.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

Init truncated(const ModernBertOptions& options, double deviation) {
  return init::truncated_normal(deviation, options.initializer_cutoff * deviation);
}
/// Layers that end in a residual sum begin with less.
double deviation_before_sums(const ModernBertOptions& options) {
  return options.initializer_range / std::sqrt(2.0 * static_cast<double>(options.layers));
}
nn::LinearOptions linear_options(const ModernBertOptions& options, bool bias, double deviation) {
  return {.bias = bias, .init = {truncated(options, deviation), init::constant(0)}};
}

std::vector<std::string> heads_of(TextHead head) {
  if (head == TextHead::embedding) return {};
  if (head == TextHead::masked_lm) return {"head", "decoder"};
  return {"classifier"};
}
/// The tensors of other heads in the family's files.
std::vector<std::string> other_heads_of(TextHead head) {
  if (head == TextHead::embedding) return {"head", "classifier", "decoder"};
  return {head == TextHead::masked_lm ? "classifier" : "decoder"};
}
std::vector<std::string> optional_parts_of(TextHead head) {
  if (heads_of(head) == std::vector<std::string>{"classifier"}) return {"head"};
  return {};
}

Names gated_activations() { return {"gelu", "gelu_new", "gelu_pytorch_tanh", "silu"}; }
GatedActivation::Curve gated_curve(std::string_view name) {
  using enum GatedActivation::Curve;
  return name == "gelu" ? gelu : name == "silu" ? silu : gelu_tanh;
}
Names classifier_poolings() { return {"cls", "mean"}; }

}  // namespace

ModernBertOptions::ModernBertOptions() {
  vocab_size = 50368;
  intermediate_size = 1152;
  layers = 22;
  positions = 8192;
  padding = 50283;
  attention_dropout = head_dropout = 0;
  norm_eps = 1e-5;
}

Fields ModernBertOptions::fields() {
  using M = ModernBertOptions;
  return Fields{field<M>("vocab_size", &M::vocab_size, count_range, "size of the vocabulary"),
                field<M>("hidden_size", &M::hidden_size, count_range, "width of the tokens"),
                field<M>("num_hidden_layers", &M::layers, text_layers, "number of layers"),
                field<M>("num_attention_heads", &M::heads, count_range, "attention heads"),
                field<M>("intermediate_size", &M::intermediate_size, count_range, "hidden width of the MLP"),
                field<M>("max_position_embeddings", &M::positions, count_range, "longest sequence in tokens"),
                field<M>("pad_token_id", &M::padding, up_to(0x7fffffff), "id of the padding token"),
                field<M>("hidden_activation", &M::hidden_activation, one_of(gated_activations),
                         "activation function of the MLP's gate"),
                field<M>("norm_eps", &M::norm_eps, epsilon_range, "epsilon of the norms"),
                field<M>("norm_bias", &M::norm_bias, "whether norms have a bias"),
                field<M>("attention_bias", &M::attention_bias, "whether the layers of attention have a bias"),
                field<M>("mlp_bias", &M::mlp_bias, "whether the layers of the MLP have a bias"),
                field<M>("global_attn_every_n_layers", &M::global_every, between(1, 4096),
                         "layers with a number divisible by it see all tokens, others a window"),
                field<M>("local_attention", &M::local_attention, between(2, 0x7fffffff),
                         "tokens of the window, half of them on each side of a token"),
                field<M>("global_rope_theta", &M::global_theta, at_least(1),
                         "base of the rotary frequencies in layers that see all tokens"),
                field<M>("local_rope_theta", &M::local_theta, at_least(1), "the same in layers with a window"),
                field<M>("attention_dropout", &M::attention_dropout, rate_range, fits_weights,
                         "dropout of attention probabilities and after attention"),
                field<M>("embedding_dropout", &M::embedding_dropout, rate_range, fits_weights, "dropout of embeddings"),
                field<M>("mlp_dropout", &M::mlp_dropout, rate_range, fits_weights, "dropout in the MLP"),
                field<M>("classifier_pooling", &M::classifier_pooling, one_of(classifier_poolings), fits_weights,
                         "`classification`: the first token, or the mean over the tokens"),
                field<M>("classifier_bias", &M::classifier_bias, "whether the dense layer of the head has a bias"),
                field<M>("classifier_activation", &M::classifier_activation, one_of(text_activations),
                         "activation function of the head"),
                field<M>("classifier_dropout", &M::head_dropout, rate_range, fits_weights,
                         "dropout before the last layer of the head"),
                field<M>("initializer_range", &M::initializer_range, fits_weights,
                         "standard deviation of initial weights"),
                field<M>("initializer_cutoff_factor", &M::initializer_cutoff, at_least(1e-3), fits_weights,
                         "standard deviations beyond which initial weights are drawn again")} +
         text_head_rows<M>();
}

void ModernBertOptions::check(HyperProblems& problems) {
  check_text_head(*this, "hidden_size", problems);
  if (hidden_size % heads == 0 && hidden_size / heads % 2 != 0)
    problems.add("num_attention_heads",
                 fmt::format("`hidden_size` {} gives {} heads of {} values: pairs of values are rotated", hidden_size,
                             heads, hidden_size / heads));
}

/// The tokens of a batch, those that are left where only first tokens are read, and the tables of their angles.
struct ModernBert::Layout {
  SequencesPtr all, firsts;
  RotaryTablePtr global_table, local_table;
};

/// x += attention(norm x), then x += MLP(norm x); the first layer has no norm before attention.
class ModernBert::Layer final : public Module {
 public:
  Layer(Module& parent, std::int64_t number, const ModernBertOptions& options)
      : Module(parent, fmt::format("model.layers.{}", number)),
        heads_(options.heads),
        positions_(options.positions),
        window_(options.windows(number) ? options.local_attention / 2 : 0),
        curve_(gated_curve(options.hidden_activation)),
        qkv_(*this, "attn.Wqkv", options.hidden_size, 3 * options.hidden_size,
             linear_options(options, options.attention_bias, options.initializer_range)),
        attention_dropout_(*this, "attn.dropout", options.attention_dropout),
        attention_output_(*this, "attn.Wo", options.hidden_size, options.hidden_size,
                          linear_options(options, options.attention_bias, deviation_before_sums(options))),
        output_dropout_(*this, "attn.out_drop", options.attention_dropout),
        mlp_norm_(*this, "mlp_norm", options.hidden_size, options.norm_eps, 1, options.norm_bias),
        gate_up_(*this, "mlp.Wi", options.hidden_size, 2 * options.intermediate_size,
                 linear_options(options, options.mlp_bias, options.initializer_range)),
        mlp_dropout_(*this, "mlp.drop", options.mlp_dropout),
        down_(*this, "mlp.Wo", options.intermediate_size, options.hidden_size,
              linear_options(options, options.mlp_bias, deviation_before_sums(options))) {
    set_role(Role::block);
    if (number > 0)
      attention_norm_.emplace(*this, "attn_norm", options.hidden_size, options.norm_eps, 1, options.norm_bias);
  }

  bool has_window() const { return window_ > 0; }

  /// x [1, T, C] to [1, T, C], or to the first tokens [1, N, C] of the sequences.
  Variable forward(Variable x, const Layout& layout, bool only_first) const {
    return run_region(*this, std::move(x), [this, layout, only_first](Variable in) {
      const Scope scope(*this);
      return transform(std::move(in), layout, only_first);
    });
  }

 private:
  Variable transform(Variable x, const Layout& layout, bool only_first) const {
    const std::int64_t width = qkv_.in();
    const SequencesPtr& rows = only_first ? layout.firsts : layout.all;
    Variable all = qkv_.forward(attention_norm_ ? attention_norm_->forward(x) : x, {}, layout.all);
    Variable q = slice(all, -1, 0, width), k = slice(all, -1, width, 2 * width),
             v = slice(std::move(all), -1, 2 * width, 3 * width);
    if (only_first) {
      q = first_tokens(std::move(q), *layout.all);
      x = first_tokens(std::move(x), *layout.all);
    }
    const auto rotated = [&](Variable one, const SequencesPtr& sequences) {
      return apply(Rotary{.heads = heads_,
                          .table = has_window() ? layout.local_table : layout.global_table,
                          .sequences = sequences},
                   std::move(one));
    };
    q = rotated(std::move(q), rows);
    k = rotated(std::move(k), layout.all);
    Variable mixed = apply(SequenceAttention{.heads = heads_,
                                             .sequences = layout.all,
                                             .queries = only_first ? 1 : 0,
                                             .window = window_,
                                             .dropout = attention_dropout_.current_rate(),
                                             .stream = attention_dropout_.mask_stream(),
                                             .positions = positions_},
                           std::move(q), std::move(k), std::move(v));
    x = add_branch(
        std::move(x), output_dropout_,
        [&](Variable to) { return attention_output_.forward(std::move(mixed), {}, rows, std::move(to)); }, rows);
    Variable hidden =
        apply(GatedActivation{.curve = curve_}, gate_up_.forward(mlp_norm_.forward(x), {}, rows), Variable());
    return down_.forward(mlp_dropout_.forward(std::move(hidden), rows), {}, rows, std::move(x));
  }

  std::int64_t heads_, positions_, window_;
  GatedActivation::Curve curve_;
  std::optional<nn::LayerNorm> attention_norm_;
  nn::Linear qkv_;
  nn::Dropout attention_dropout_;
  nn::Linear attention_output_;
  nn::Dropout output_dropout_;
  nn::LayerNorm mlp_norm_;
  nn::Linear gate_up_;
  nn::Dropout mlp_dropout_;
  nn::Linear down_;
};

ModernBert::ModernBert(const ModelContext& context, const ModernBertOptions& options)
    : Model(context, {.inputs = text_inputs(options, options.positions, 0),
                      .num_classes = outputs_of_head(options),
                      .heads = heads_of(options.head),
                      .other_heads = other_heads_of(options.head),
                      .optional_parts = optional_parts_of(options.head)}),
      options_(options),
      words_(*this, "model.embeddings.tok_embeddings.weight", {options.vocab_size, options.hidden_size},
             text_table(truncated(options, options.initializer_range), options.padding)),
      embedding_norm_(*this, "model.embeddings.norm", options.hidden_size, options.norm_eps, 1, options.norm_bias),
      embedding_dropout_(*this, "model.embeddings.drop", options.embedding_dropout),
      layers_([&] {
        std::vector<std::unique_ptr<Layer>> layers;
        for (std::int64_t i = 0; i < options.layers; ++i) layers.push_back(std::make_unique<Layer>(*this, i, options));
        return layers;
      }()),
      final_norm_(*this, "model.final_norm", options.hidden_size, options.norm_eps, 1, options.norm_bias),
      head_dropout_(*this, "drop", options.head_dropout) {
  words_.allow_few_bits();
  if (options.head == TextHead::embedding) return;
  const std::int64_t width = options.hidden_size;
  dense_.emplace(*this, "head.dense", width, width,
                 linear_options(options, options.classifier_bias, deviation_before_sums(options)));
  norm_.emplace(*this, "head.norm", width, options.norm_eps, 1, options.norm_bias);
  if (options.head == TextHead::masked_lm)
    decoder_bias_.emplace(*this, "decoder.bias", Shape{options.vocab_size}, init::constant(0));
  else
    classifier_.emplace(*this, "classifier", width, outputs_of_head(options),
                        linear_options(options, true, 1 / std::sqrt(static_cast<double>(width))));
}

ModernBert::~ModernBert() = default;

bool ModernBert::reads_first_tokens() const {
  return (options_.head == TextHead::classification && options_.classifier_pooling == "cls") ||
         (options_.head == TextHead::embedding && options_.pooling == Pooling::first);
}

ModernBert::Layout ModernBert::layout_of(SequencesPtr sequences) {
  // With padding as far as that goes: a step that is captured knows no shorter length, and makes no table.
  const std::int64_t most = sequences->is_padded() ? sequences->rows() / sequences->count() : sequences->longest();
  const auto table = [&](double theta) {
    return tables_.find(rotary_frequencies(options_.hidden_size / options_.heads, theta, options_.positions, most),
                        most, context().device);
  };
  SequencesPtr firsts = one_token_each(*sequences);
  return {std::move(sequences), std::move(firsts), table(options_.global_theta), table(options_.local_theta)};
}

Variable ModernBert::encode(Variable tokens, const Layout& layout) const {
  Variable x = apply(Embedding{.shape = words_.shape(), .padding = options_.padding, .dtype = context().dtype},
                     words_.variable(), std::move(tokens), Variable());
  x = embedding_dropout_.forward(embedding_norm_.forward(std::move(x)), layout.all);
  const Layer* const last = layers_.back().get();
  const bool early = reads_first_tokens() && !last->has_window();
  x = run_sequence(layers_, std::move(x), [layout, last, early](const Layer& layer, Variable in) {
    return layer.forward(std::move(in), layout, early && &layer == last);
  });
  if (reads_first_tokens() && !early) x = first_tokens(std::move(x), *layout.all);
  return final_norm_.forward(std::move(x));
}

Variable ModernBert::transform(Variable x) const {
  return norm_->forward(nn::activate(text_activation(options_.classifier_activation), dense_->forward(std::move(x))));
}

Outputs ModernBert::forward(Inputs inputs) {
  const Scope scope(*this);
  const SequencesPtr sequences = sequences_of(inputs);
  Variable rows = inputs.contains("rows") ? inputs.take("rows", context().device) : Variable();
  Variable tokens = take_tokens(inputs, *sequences, options_.positions, context().device);
  Variable x = encode(std::move(tokens), layout_of(sequences));  // [1, T, C] or [1, N, C]
  if (reads_first_tokens())
    x = std::move(x).reshape({sequences->count(), options_.hidden_size});
  else if (options_.head == TextHead::classification || options_.head == TextHead::embedding)
    x = apply(SequenceMean{.sequences = sequences}, std::move(x));
  Outputs outputs;
  switch (options_.head) {
    case TextHead::classification:
      outputs.set("logits", classifier_->forward(head_dropout_.forward(transform(std::move(x)))));
      break;
    case TextHead::tokens: {
      x = select_rows(head_dropout_.forward(transform(std::move(x)), sequences), std::move(rows));
      const std::int64_t count = x.shape()[1];
      outputs.set("logits", classifier_->forward(std::move(x)).reshape({count, options_.num_classes}));
      break;
    }
    case TextHead::span:
      outputs.set("logits", classifier_->forward(head_dropout_.forward(transform(std::move(x)), sequences)));
      break;
    case TextHead::masked_lm:
      outputs.set("hidden", transform(select_rows(std::move(x), std::move(rows))));
      outputs.set("decoder_weight", words_.variable());
      outputs.set("decoder_bias", decoder_bias_->variable());
      break;
    case TextHead::embedding:
      outputs.set("embeddings", embeddings_of(options_, std::move(x)));
      break;
  }
  return outputs;
}

namespace {

const RegisterFamily<ModernBert, ModernBertOptions> modernbert("modernbert", "random_tokens");

const HyperParameter as_published{"classifier_pooling", "mean"};
const RegisterPreset modernbert_presets[] = {{"modernbert_base", "modernbert", {as_published}},
                                             {"modernbert_large",
                                              "modernbert",
                                              {as_published,
                                               {"hidden_size", std::int64_t{1024}},
                                               {"num_hidden_layers", std::int64_t{28}},
                                               {"num_attention_heads", std::int64_t{16}},
                                               {"intermediate_size", std::int64_t{2624}}}}};

}  // namespace
}  // namespace lacuna
