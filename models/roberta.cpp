// RoBERTa and XLM-RoBERTa: BERT's layers with other heads, positions that begin behind the padding's, and no token
// types.
#include "models/bert.h"
#include "models/registry.h"

namespace lacuna {
namespace {

constexpr TextNames roberta_names{.width = "hidden_size",
                                  .base = "roberta",
                                  .layers = "encoder.layer",
                                  .query = "attention.self.query",
                                  .key = "attention.self.key",
                                  .value = "attention.self.value",
                                  .attention_output = "attention.output.dense",
                                  .attention_norm = "attention.output.LayerNorm",
                                  .fc1 = "intermediate.dense",
                                  .fc2 = "output.dense",
                                  .output_norm = "output.LayerNorm",
                                  .mlm_dense = "lm_head.dense",
                                  .mlm_norm = "lm_head.layer_norm",
                                  .mlm_bias = "lm_head.bias",
                                  .class_dense = "classifier.dense",
                                  .class_output = "classifier.out_proj",
                                  .mlm_modules = {"lm_head"},
                                  .class_module = "classifier.dense",
                                  .pooler = "roberta.pooler"};

struct RobertaFamily : BertOptions {
  std::string hidden_act = "gelu";
  std::optional<double> classifier_dropout{};

  RobertaFamily() {
    names = roberta_names;
    drops_before_dense = true;
    vocab_size = 50265;
    positions = 514;
    types = 1;
    padding = 1;
    norm_eps = 1e-5;
  }
  static Fields fields() { return rows<RobertaFamily>(); }
  template <class R>
  static Fields rows() {
    return Fields{field<R>("vocab_size", &R::vocab_size, count_range, "size of the vocabulary"),
                  field<R>("hidden_size", &R::hidden_size, count_range, "width of the tokens"),
                  field<R>("num_hidden_layers", &R::layers, text_layers, "number of layers"),
                  field<R>("num_attention_heads", &R::heads, count_range, "attention heads"),
                  field<R>("intermediate_size", &R::intermediate_size, count_range, "hidden width of the MLP"),
                  field<R>("max_position_embeddings", &R::positions, count_range,
                           "rows of the table of positions; those up to pad_token_id stand for no token"),
                  field<R>("type_vocab_size", &R::types, count_range, "number of token types"),
                  field<R>("pad_token_id", &R::padding, up_to(0x7fffffff), "id of the padding token"),
                  field<R>("hidden_act", &R::hidden_act, one_of(text_activations), "activation function of the MLP"),
                  field<R>("hidden_dropout_prob", &R::dropout, rate_range, fits_weights, "dropout after projections"),
                  field<R>("attention_probs_dropout_prob", &R::attention_dropout, rate_range, fits_weights,
                           "dropout of attention probabilities"),
                  field<R>("classifier_dropout", &R::classifier_dropout, rate_range, fits_weights,
                           "dropout before the layers of the head; by default hidden_dropout_prob"),
                  field<R>("initializer_range", &R::initializer_range, fits_weights,
                           "standard deviation of initial weights"),
                  field<R>("layer_norm_eps", &R::norm_eps, "epsilon of the norms")} +
           text_head_rows<R>();
  }
  void check(HyperProblems& problems) {
    if (!classifier_dropout) classifier_dropout = dropout;
    head_dropout = *classifier_dropout;
    activation = text_activation(hidden_act);
    first_position = padding + 1;
    if (most_tokens() < 1)
      problems.add(
          "max_position_embeddings",
          fmt::format("`max_position_embeddings` {} leaves no token behind `pad_token_id` {}", positions, padding));
    check_text_head(*this, names.width, problems);
  }
};

struct XlmRobertaFamily : RobertaFamily {
  XlmRobertaFamily() { vocab_size = 250002; }
  static Fields fields() { return rows<XlmRobertaFamily>(); }
};

const RegisterFamily<Bert, RobertaFamily> roberta("roberta", "random_tokens");
const RegisterFamily<Bert, XlmRobertaFamily> xlm_roberta("xlm_roberta", "random_tokens");

const std::vector<HyperParameter> large{{"hidden_size", std::int64_t{1024}},
                                        {"num_hidden_layers", std::int64_t{24}},
                                        {"num_attention_heads", std::int64_t{16}},
                                        {"intermediate_size", std::int64_t{4096}}};

const RegisterPreset presets[] = {{"roberta_base", "roberta", {}},
                                  {"roberta_large", "roberta", large},
                                  {"distilroberta_base", "roberta", {{"num_hidden_layers", std::int64_t{6}}}},
                                  {"xlm_roberta_base", "xlm_roberta", {}},
                                  {"xlm_roberta_large", "xlm_roberta", large}};

}  // namespace
}  // namespace lacuna
