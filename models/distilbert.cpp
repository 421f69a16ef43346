// DistilBERT: BERT's layers without token types and pooler, under other names.
#include "models/bert.h"
#include "models/registry.h"

namespace lacuna {
namespace {

constexpr TextNames names{.base = "distilbert",
                          .layers = "transformer.layer",
                          .query = "attention.q_lin",
                          .key = "attention.k_lin",
                          .value = "attention.v_lin",
                          .attention_output = "attention.out_lin",
                          .attention_norm = "sa_layer_norm",
                          .fc1 = "ffn.lin1",
                          .fc2 = "ffn.lin2",
                          .output_norm = "output_layer_norm",
                          .mlm_dense = "vocab_transform",
                          .mlm_norm = "vocab_layer_norm",
                          .mlm_bias = "vocab_projector.bias"};

ModelFactory read(HyperParameters& parameters) {
  BertOptions options{.names = names, .has_types = false, .has_pooler = false, .layers = 6};
  options.vocab_size = parameters.integer("vocab_size", options.vocab_size);
  options.hidden_size = parameters.integer("dim", options.hidden_size);
  options.layers = parameters.integer("n_layers", options.layers, 1, most_text_layers);
  options.heads = parameters.integer("n_heads", options.heads);
  options.intermediate_size = parameters.integer("hidden_dim", options.intermediate_size);
  options.positions = parameters.integer("max_position_embeddings", options.positions);
  options.padding = parameters.integer("pad_token_id", options.padding, 0);
  options.activation = read_text_activation(parameters, "activation");
  options.dropout = parameters.real("dropout", options.dropout, 0, 1);
  options.attention_dropout = parameters.real("attention_dropout", options.attention_dropout, 0, 1);
  options.initializer_range = parameters.real("initializer_range", options.initializer_range);
  read_text_head(parameters, options);
  // transformers' classes: one rate of the classifier, one of question answering, and `dropout` of tokens.
  const double of_classifier = parameters.real("seq_classif_dropout", 0.2, 0, 1);
  const double of_span = parameters.real("qa_dropout", 0.1, 0, 1);
  options.head_dropout = options.head == TextHead::classification ? of_classifier
                         : options.head == TextHead::span         ? of_span
                                                                  : options.dropout;
  return [options](const ModelContext& context) { return std::make_unique<Bert>(context, options); };
}

const RegisterFamily distilbert("distilbert", read);
const RegisterPreset preset("distilbert_base", "distilbert", {});

}  // namespace
}  // namespace lacuna
