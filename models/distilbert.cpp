// DistilBERT: BERT's layers without token types and pooler, under other names.
#include "models/bert.h"
#include "models/registry.h"

namespace lacuna {
namespace {

constexpr TextNames distilbert_names{.width = "dim",
                                     .base = "distilbert",
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
                                     .mlm_bias = "vocab_projector.bias",
                                     .class_dense = "pre_classifier",
                                     .class_output = "classifier",
                                     .mlm_modules = {"vocab_transform", "vocab_layer_norm", "vocab_projector"},
                                     .class_module = "pre_classifier"};

struct DistilBertFamily : BertOptions {
  std::string activation_name = "gelu";
  double classifier_dropout = 0.2, span_dropout = 0.1;

  DistilBertFamily() {
    names = distilbert_names;
    has_types = has_tanh = false;
    drops_before_span = true;
    layers = 6;
  }
  static Fields fields() {
    using D = DistilBertFamily;
    return Fields{
               field<D>("vocab_size", &D::vocab_size, count_range, "size of the vocabulary"),
               field<D>("dim", &D::hidden_size, count_range, "width of the tokens"),
               field<D>("n_layers", &D::layers, text_layers, "number of layers"),
               field<D>("n_heads", &D::heads, count_range, "attention heads"),
               field<D>("hidden_dim", &D::intermediate_size, count_range, "hidden width of the MLP"),
               field<D>("max_position_embeddings", &D::positions, count_range, "longest sequence in tokens"),
               field<D>("pad_token_id", &D::padding, up_to(0x7fffffff), "id of the padding token"),
               field<D>("activation", &D::activation_name, one_of(text_activations), "activation function of the MLP"),
               field<D>("dropout", &D::dropout, rate_range, fits_weights,
                        "dropout after projections, and before a head for tokens"),
               field<D>("attention_dropout", &D::attention_dropout, rate_range, fits_weights,
                        "dropout of attention probabilities"),
               field<D>("initializer_range", &D::initializer_range, fits_weights,
                        "standard deviation of initial weights")} +
           text_head_rows<D>() +
           Fields{
               field<D>("seq_classif_dropout", &D::classifier_dropout, rate_range, fits_weights,
                        "dropout before the head of `classification`"),
               field<D>("qa_dropout", &D::span_dropout, rate_range, fits_weights, "dropout before the head of `span`")};
  }
  void check(HyperProblems& problems) {
    activation = mlm_activation = text_activation(activation_name);
    head_dropout = head == TextHead::classification ? classifier_dropout
                   : head == TextHead::span         ? span_dropout
                                                    : dropout;
    check_text_head(*this, names.width, problems);
  }
};

const RegisterFamily<Bert, DistilBertFamily> distilbert("distilbert", "random_tokens");
const RegisterPreset preset("distilbert_base", "distilbert", {});

}  // namespace
}  // namespace lacuna
