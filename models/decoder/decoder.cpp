#include "models/decoder/decoder.h"

#include "models/registry.h"
#include "models/sequences.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/region.h"
#include "ops/attention/causal_attention.h"
#include "ops/attention/rotary.h"
#include "ops/curves/gated_activation.h"
#include "ops/shapes/embedding.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

SampleFields inputs_of(const DecoderOptions& options) {
  return {{.name = "tokens",
           .kind = FieldKind::tokens,
           .dtype = DType::i64,
           .shape = {options.positions_count},
           .collation = Collation::packed,
           .below = options.vocab_size}};
}

nn::LinearOptions linear_options(const DecoderOptions& options, bool bias, bool ends_in_sum = false) {
  const double scale =
      ends_in_sum && options.scales_residual_init ? 1 / std::sqrt(2.0 * static_cast<double>(options.layers)) : 1;
  return {.bias = bias, .init = {init::normal(options.initializer_range * scale), init::constant(0)}};
}

Variable rows_of_table(const Parameter& table, Variable ids, Variable base, std::int64_t padding, DType dtype) {
  return apply(Embedding{.shape = table.shape(), .padding = padding, .dtype = dtype}, table.variable(), std::move(ids),
               std::move(base));
}

Init table_init(double range, std::int64_t padding) {
  return [range, padding](const Tensor& table, RandomStream stream) {
    init::normal(range)(table, stream);
    if (padding >= 0) table.leading(padding, padding + 1).fill(0);
  };
}

}  // namespace

class Decoder::Norm {
 public:
  Norm(Module& parent, std::string_view name, std::int64_t channels, const DecoderOptions& options)
      : channels_(channels) {
    if (options.norm == DecoderOptions::Norm::layer)
      layer_.emplace(parent, name, channels, options.norm_eps);
    else
      rms_.emplace(parent, name, channels, options.norm_eps, options.norm == DecoderOptions::Norm::rms ? 0 : 1);
  }
  Variable forward(Variable x) const { return rms_ ? rms_->forward(std::move(x)) : layer_->forward(std::move(x)); }
  /// The norm of each part of the last axis of x that has its channels.
  Variable forward_parts(Variable x) const {
    if (rms_) return rms_->forward(std::move(x));
    const Shape shape = x.shape();
    return layer_->forward(std::move(x).reshape({shape.count() / channels_, channels_})).reshape(shape);
  }
  /// The same, then the rotation.
  Variable forward_rotary(Variable x, Rotary rotary) const {
    if (rms_) return rms_->forward_rotary(std::move(x), std::move(rotary));
    return apply(std::move(rotary), forward_parts(std::move(x)));
  }

 private:
  std::int64_t channels_;
  std::optional<nn::LayerNorm> layer_;
  std::optional<nn::RmsNorm> rms_;
};

/// The part of a batch that layers see.
struct Decoder::Layout {
  SequencesPtr sequences;  // of the rows of x
  SequencesPtr cached;     // of the keys, where a cache holds those before; else null
  KeyValueCache* cache = nullptr;
  std::vector<std::int64_t> first_positions{};  // of each sequence; empty: all 0
  RotaryTablePtr table{}, local_table{};
};

class Decoder::Layer final : public Module {
 public:
  Layer(Module& parent, std::int64_t number, const DecoderOptions& options)
      : Module(parent, fmt::format("model.layers.{}", number)),
        options_(options),
        number_(number),
        attention_dropout_(*this, "self_attn.dropout", options.attention_dropout),
        attention_end_dropout_(*this, "self_attn.residual_dropout", options.residual_dropout),
        mlp_dropout_(*this, "mlp.residual_dropout", options.residual_dropout) {
    set_role(Role::block);
    if (options.positions == DecoderOptions::Positions::alibi ||
        options.positions == DecoderOptions::Positions::alibi_bf16)
      slopes_ = alibi_slopes(options.heads);
    if (options.positions == DecoderOptions::Positions::alibi_bf16)
      for (double& slope : slopes_) slope = static_cast<float>(bf16(static_cast<float>(slope)));
    const std::int64_t width = options.hidden_size, d = options.head_dim, q = options.heads * d,
                       k = options.kv_heads * d, hidden = options.intermediate_size;
    const auto norm = [&](std::string_view name, std::int64_t channels) {
      return std::make_unique<Norm>(*this, name, channels, options);
    };
    using Block = DecoderOptions::Block;
    if (options.block != Block::post) before_attention_ = norm("input_layernorm", width);
    const auto linear = [&](std::optional<nn::Linear>& layer, std::string_view name, std::int64_t in, std::int64_t out,
                            bool bias, bool ends_in_sum = false) {
      layer.emplace(*this, name, in, out, linear_options(options, bias, ends_in_sum));
    };
    if (options.qkv == DecoderOptions::Qkv::separate) {
      linear(q_, "self_attn.q_proj", width, q, options.qkv_bias);
      linear(k_, "self_attn.k_proj", width, k, options.qkv_bias);
      linear(v_, "self_attn.v_proj", width, k, options.qkv_bias);
    } else {
      linear(q_, "self_attn.qkv_proj", width, q + 2 * k, options.qkv_bias);
    }
    if (options.qk_norm != DecoderOptions::QkNorm::none) {
      const bool full = options.qk_norm == DecoderOptions::QkNorm::full;
      q_norm_ = norm("self_attn.q_norm", full ? q : d);
      k_norm_ = norm("self_attn.k_norm", full ? k : d);
    }
    linear(o_, "self_attn.o_proj", q, width, options.output_bias, true);
    if (options.block == Block::sandwich || options.block == Block::post) {
      behind_attention_ = norm("post_attention_layernorm", width);
      if (options.block == Block::sandwich) before_mlp_ = norm("pre_feedforward_layernorm", width);
      behind_mlp_ = norm("post_feedforward_layernorm", width);
    } else if (options.block != Block::parallel) {
      before_mlp_ = norm("post_attention_layernorm", width);
    }
    if (options.mlp == DecoderOptions::Mlp::gated) linear(gate_, "mlp.gate_proj", width, hidden, options.mlp_bias);
    const bool fused = options.mlp == DecoderOptions::Mlp::gated_fused;
    linear(up_, fused ? "mlp.gate_up_proj" : "mlp.up_proj", width, fused ? 2 * hidden : hidden, options.mlp_bias);
    linear(down_, "mlp.down_proj", hidden, width, options.mlp_bias, true);
  }

  /// x [1, T, C] to [1, T, C].
  Variable forward(Variable x, const Layout& layout) const {
    return run_region(*this, std::move(x), [this, layout](Variable in) {
      const Scope scope(*this);
      return transform(std::move(in), layout);
    });
  }

 private:
  static Variable normed(const std::unique_ptr<Norm>& norm, Variable x) {
    return norm ? norm->forward(std::move(x)) : x;
  }

  Variable transform(Variable x, const Layout& layout) const {
    using Block = DecoderOptions::Block;
    if (options_.block == Block::parallel || options_.block == Block::parallel_two_norms) {
      Variable n = before_attention_->forward(x);
      Variable beside = before_mlp_ ? before_mlp_->forward(x) : n;
      Variable attended = attention(std::move(n), layout, {});
      return std::move(x) + mlp(std::move(beside), layout, std::move(attended));
    }
    Variable h = normed(before_attention_, x);
    x = behind_attention_ ? std::move(x) + behind_attention_->forward(attention(std::move(h), layout, {}))
                          : attention(std::move(h), layout, std::move(x));
    h = normed(before_mlp_, x);
    return behind_mlp_ ? std::move(x) + behind_mlp_->forward(mlp(std::move(h), layout, {}))
                       : mlp(std::move(h), layout, std::move(x));
  }

  struct Projected {
    Variable q, k, v;  // [1, T, heads · head_dim], [1, T, kv_heads · head_dim]
  };
  Projected project(Variable x, const Layout& layout) const {
    using Qkv = DecoderOptions::Qkv;
    const std::int64_t d = options_.head_dim, heads = options_.heads, kv = options_.kv_heads, rows = x.shape()[1];
    if (options_.qkv == Qkv::separate) {
      Variable q = q_->forward(x, {}, layout.sequences), k = k_->forward(x, {}, layout.sequences);
      return {std::move(q), std::move(k), v_->forward(std::move(x), {}, layout.sequences)};
    }
    Variable all = q_->forward(std::move(x), {}, layout.sequences);
    if (options_.qkv == Qkv::rows)
      return {slice(all, -1, 0, heads * d), slice(all, -1, heads * d, (heads + kv) * d),
              slice(all, -1, (heads + kv) * d, (heads + 2 * kv) * d)};
    const std::int64_t shared = heads / kv;  // queries of a head of k and v
    all = std::move(all).reshape({rows, kv, shared + 2, d});
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      return slice(all, 2, begin, end).reshape({1, rows, kv * (end - begin) * d});
    };
    return {part(0, shared), part(shared, shared + 1), part(shared + 1, shared + 2)};
  }

  /// Attention and its projection, plus `residual` if given.
  Variable attention(Variable x, const Layout& layout, Variable residual) const {
    Projected made = project(std::move(x), layout);
    const auto prepared = [&](Variable one, const std::unique_ptr<Norm>& norm, std::int64_t heads) {
      if (!options_.rotates(number_)) return norm ? norm->forward_parts(std::move(one)) : one;
      Rotary rotary{.heads = heads,
                    .table = options_.windows(number_) ? layout.local_table : layout.table,
                    .sequences = layout.sequences,
                    .neighbours = options_.rotary_neighbours,
                    .first_positions = layout.first_positions};
      return norm ? norm->forward_rotary(std::move(one), std::move(rotary)) : apply(std::move(rotary), std::move(one));
    };
    Variable q = prepared(std::move(made.q), q_norm_, options_.heads),
             k = prepared(std::move(made.k), k_norm_, options_.kv_heads), v = std::move(made.v);
    if (layout.cache != nullptr) {
      Tensor keys = k.tensor(), values = v.tensor();
      layout.cache->append(static_cast<std::size_t>(number_), keys, values);
      k = Variable(keys);
      v = Variable(values);
    }
    Variable mixed = apply(CausalAttention{.heads = options_.heads,
                                           .kv_heads = options_.kv_heads,
                                           .sequences = layout.cached ? layout.cached : layout.sequences,
                                           .queries = layout.cached ? layout.sequences : nullptr,
                                           .scale = options_.attention_scale,
                                           .window = options_.windows(number_) ? options_.window : 0,
                                           .soft_cap = options_.attention_soft_cap,
                                           .alibi = slopes_,
                                           .rounds_alibi = options_.positions == DecoderOptions::Positions::alibi_bf16,
                                           .dropout = attention_dropout_.current_rate(),
                                           .stream = attention_dropout_.mask_stream(),
                                           .positions = options_.positions_count},
                           std::move(q), std::move(k), std::move(v));
    const SequencesPtr& rows = layout.sequences;
    return add_branch(
        std::move(residual), attention_end_dropout_,
        [&](Variable to) { return o_->forward(std::move(mixed), {}, rows, std::move(to)); }, rows);
  }

  /// The perceptron, plus `residual` if given.
  Variable mlp(Variable x, const Layout& layout, Variable residual) const {
    const SequencesPtr& rows = layout.sequences;
    Variable hidden;
    if (options_.mlp == DecoderOptions::Mlp::plain) {
      hidden = up_->forward(std::move(x), {}, rows);
      using enum DecoderOptions::Activation;
      hidden = options_.activation == silu   ? lacuna::silu(std::move(hidden))
               : options_.activation == gelu ? lacuna::gelu(std::move(hidden))
                                             : lacuna::gelu_tanh(std::move(hidden));
    } else {
      using Curve = GatedActivation::Curve;
      const GatedActivation activation{.curve = options_.activation == DecoderOptions::Activation::silu ? Curve::silu
                                                : options_.activation == DecoderOptions::Activation::gelu
                                                    ? Curve::gelu
                                                    : Curve::gelu_tanh};
      Variable gate = gate_ ? gate_->forward(x, {}, rows) : up_->forward(x, {}, rows);
      Variable up = gate_ ? up_->forward(std::move(x), {}, rows) : Variable();
      hidden = apply(activation, std::move(gate), std::move(up));
    }
    return add_branch(
        std::move(residual), mlp_dropout_,
        [&](Variable to) { return down_->forward(std::move(hidden), {}, rows, std::move(to)); }, rows);
  }

  DecoderOptions options_;
  std::int64_t number_;
  std::vector<double> slopes_;  // [heads], or empty
  std::unique_ptr<Norm> before_attention_, behind_attention_, before_mlp_, behind_mlp_, q_norm_, k_norm_;
  std::optional<nn::Linear> q_, k_, v_, o_;  // q_ alone: all three
  std::optional<nn::Linear> gate_, up_, down_;
  nn::Dropout attention_dropout_, attention_end_dropout_, mlp_dropout_;
};

Decoder::Decoder(const ModelContext& context, const DecoderOptions& options)
    : LanguageModel(context, {.inputs = inputs_of(options),
                              .num_classes = options.vocab_size,
                              .heads = {},
                              .other_heads = {},
                              .optional_parts = {}}),
      options_(options),
      words_(*this, "model.embed_tokens.weight", {options.vocab_size, options.hidden_size},
             table_init(options.initializer_range, options.padding)),
      embedding_dropout_(*this, "model.embed_dropout", options.embedding_dropout) {
  words_.allow_few_bits();
  if (options.positions == DecoderOptions::Positions::learned) {
    positions_.emplace(*this, "model.embed_positions.weight", Shape{options.positions_count, options.hidden_size},
                       init::normal(options.initializer_range));
    positions_->allow_few_bits();
  }
  if (options.embedding_norm)
    embedding_norm_ = std::make_unique<Norm>(*this, "model.embed_norm", options.hidden_size, options);
  for (std::int64_t i = 0; i < options.layers; ++i) layers_.push_back(std::make_unique<Layer>(*this, i, options_));
  norm_ = std::make_unique<Norm>(*this, "model.norm", options.hidden_size, options);
  if (!options.tied) {
    head_.emplace(*this, "lm_head.weight", Shape{options.vocab_size, options.hidden_size},
                  init::normal(options.initializer_range));
    head_->allow_few_bits();
  }
  if (options.head_bias) head_bias_.emplace(*this, "lm_head.bias", Shape{options.vocab_size}, init::constant(0));
}

Decoder::~Decoder() = default;

Decoder::Layout Decoder::layout_of(const SequencesPtr& sequences, KeyValueCache* cache) {
  Layout layout{.sequences = sequences, .cached = nullptr, .cache = cache};
  std::int64_t longest = sequences->longest();
  if (cache != nullptr) {
    longest += cache->length();
    layout.cached = Sequences::padded(std::vector{longest}, cache->capacity());
    layout.first_positions = {cache->length()};
  }
  if (longest > options_.positions_count)
    reject("a sequence of {} tokens: the model has {} positions; data.max_length cuts longer texts", longest,
           options_.positions_count);
  if (options_.positions != DecoderOptions::Positions::rotary) return layout;
  const auto table = [&](double theta, const RotaryScaling& scaling) {
    return tables_.find(rotary_frequencies(options_.rotated(), theta, options_.positions_count, longest, scaling),
                        longest, context().device);
  };
  layout.table = table(options_.rope_theta, options_.scaling);
  layout.local_table = options_.rope_local_theta == 0 ? layout.table : table(options_.rope_local_theta, {});
  return layout;
}

Variable Decoder::encode(Variable tokens, const Layout& layout) const {
  const DType dtype = context().dtype;
  Variable x = rows_of_table(words_, std::move(tokens), {}, options_.padding, dtype);
  if (options_.scales_embedding) {
    const auto factor = std::sqrt(static_cast<double>(options_.hidden_size));
    x = std::move(x) * Tensor::full({1}, factor, dtype, Device::cpu).to(DType::f64).item();  // as rounded there
  }
  if (positions_) {
    std::vector<std::int64_t> places;  // of each token in its sequence
    for (std::int64_t i = 0; i < layout.sequences->count(); ++i)
      for (std::int64_t row = layout.sequences->begin(i); row < layout.sequences->end(i); ++row)
        places.push_back(row - layout.sequences->begin(i) +
                         (layout.first_positions.empty() ? 0 : layout.first_positions[static_cast<std::size_t>(i)]));
    const Shape shape{std::ssize(places)};
    const Tensor numbers = context().device == Device::meta
                               ? Tensor::empty(shape, DType::i64, Device::meta)
                               : Tensor::from(std::span<const std::int64_t>(places), shape, context().device);
    x = rows_of_table(*positions_, Variable(numbers), std::move(x), -1, dtype);
  }
  if (embedding_norm_) x = embedding_norm_->forward(std::move(x));
  x = embedding_dropout_.forward(std::move(x), layout.sequences);
  return run_sequence(layers_, std::move(x),
                      [layout](const Layer& layer, Variable in) { return layer.forward(std::move(in), layout); });
}

Outputs Decoder::outputs_of(Variable x) const {
  Outputs outputs;
  outputs.set("hidden", norm_->forward(std::move(x)));
  outputs.set("decoder_weight", (head_ ? *head_ : words_).variable());
  if (head_bias_) outputs.set("decoder_bias", head_bias_->variable());
  return outputs;
}

Outputs Decoder::forward(Inputs inputs) {
  const Scope scope(*this);
  const Layout layout = layout_of(sequences_of(inputs), nullptr);
  Variable rows = inputs.contains("rows") ? inputs.take("rows", context().device) : Variable();
  Variable x = encode(inputs.take("tokens", context().device).reshape({layout.sequences->rows()}), layout);
  if (rows.defined()) {
    const Shape shape = x.shape();
    x = apply(Embedding{.shape = shape, .dtype = x.dtype()}, std::move(x), std::move(rows), Variable());
  }
  return outputs_of(std::move(x));
}

Tensor Decoder::read(std::span<const std::int64_t> tokens, KeyValueCache& cache) {
  const NoGrad no_grad;
  const Scope scope(*this);
  const auto count = std::ssize(tokens);
  if (cache.length() + count > cache.capacity())
    reject("{} tokens behind {}: the cache has room for {}", count, cache.length(), cache.capacity());
  if (outdates(cache, cache.length() + count))
    reject("{} tokens behind {}: beyond {} tokens other angles hold for all of them; read them with an empty cache",
           count, cache.length(), short_length());
  const Layout layout = layout_of(Sequences::packed(std::vector<std::int64_t>{0, count}), &cache);
  Variable x = encode(Variable(Tensor::from(tokens, {count}, context().device)), layout);
  cache.advance(count);
  const Outputs outputs = outputs_of(slice(std::move(x), 1, count - 1, count));
  return logits_of(outputs, options_.soft_cap).tensor().reshape({options_.vocab_size});
}

namespace {

const RegisterFamily<Decoder, DecoderOptions> decoder("decoder", "random_tokens", "text", "causal_lm");

}  // namespace
}  // namespace lacuna
