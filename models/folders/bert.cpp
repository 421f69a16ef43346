// BERT, DistilBERT, RoBERTa and XLM-RoBERTa in transformers' convention. Their tensors have transformers' names here
// too: the tables are for files without the base's name, and for norms with TensorFlow's names.
#include "models/folders/text_types.h"

#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

/// Refuses what makes another model of it.
void refuse_decoders(const ConfigReader& config) {
  if (config.text("position_embedding_type", "absolute") != "absolute")
    config.refuse("position_embedding_type", "absolute");
  for (const char* const key : {"is_decoder", "add_cross_attention"})
    if (config.flag(key, false)) config.refuse(key, "false");
}

std::vector<HyperParameter> read_values(const ConfigReader& config, std::initializer_list<const char*> integers,
                                        std::initializer_list<const char*> reals, const char* activation) {
  refuse_decoders(config);
  std::vector<HyperParameter> values;
  for (const char* const key : integers)
    if (config.says(key)) values.push_back({key, config.integer(key, 0)});
  for (const char* const key : reals)
    if (config.says(key)) values.push_back({key, config.real(key, 0)});
  if (config.says(activation)) values.push_back({activation, config.text(activation, "gelu")});
  if (std::string head = head_of(config); !head.empty()) values.push_back({"head", std::move(head)});
  return values;
}

std::vector<HyperParameter> read_bert(const ConfigReader& config) {
  return read_values(config,
                     {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                      "max_position_embeddings", "type_vocab_size", "pad_token_id"},
                     {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "initializer_range",
                      "layer_norm_eps"},
                     "hidden_act");
}
std::string write_bert(const Options& options, nlohmann::ordered_json& config) {
  write_values(options,
               {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                "max_position_embeddings", "type_vocab_size", "pad_token_id", "hidden_act", "hidden_dropout_prob",
                "attention_probs_dropout_prob", "classifier_dropout", "initializer_range", "layer_norm_eps"},
               config);
  return {};
}

std::vector<HyperParameter> read_distilbert(const ConfigReader& config) {
  return read_values(
      config, {"vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings", "pad_token_id"},
      {"dropout", "attention_dropout", "seq_classif_dropout", "qa_dropout", "initializer_range"}, "activation");
}
std::string write_distilbert(const Options& options, nlohmann::ordered_json& config) {
  write_values(options,
               {"vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings", "pad_token_id",
                "activation", "dropout", "attention_dropout", "seq_classif_dropout", "qa_dropout", "initializer_range"},
               config);
  return {};
}

std::vector<TensorNameRule> bert_body(std::string_view base, std::string_view pooler) {
  return own_names(
      base,
      {"embeddings.word_embeddings.", "embeddings.position_embeddings.", "embeddings.token_type_embeddings.",
       "encoder.layer.*.attention.self.query.", "encoder.layer.*.attention.self.key.",
       "encoder.layer.*.attention.self.value.", "encoder.layer.*.attention.output.dense.",
       "encoder.layer.*.intermediate.dense.", "encoder.layer.*.output.dense.", pooler},
      {"embeddings.LayerNorm.", "encoder.layer.*.attention.output.LayerNorm.", "encoder.layer.*.output.LayerNorm."});
}

const RegisterTransformersType bert(
    "bert", {.family = "bert",
             .architecture = "BertForSequenceClassification",
             .names = {.base = "bert.",
                       .body = bert_body("bert.", "pooler.dense."),
                       .heads = own_names("",
                                          {"classifier.", "qa_outputs.", "cls.predictions.transform.dense.",
                                           "cls.predictions.bias"},
                                          {"cls.predictions.transform.LayerNorm."}),
                       .ignored = {"embeddings.position_ids"},
                       .ignored_heads = {"cls.predictions.decoder.", "cls.seq_relationship."}},
             .read = read_bert,
             .write = write_bert,
             .class_of = [](const Options& options) { return class_name("Bert", options); },
             .adapter_targets = {"query", "value"}});

const RegisterTransformersType distilbert(
    "distilbert",
    {.family = "distilbert",
     .architecture = "DistilBertForSequenceClassification",
     .names = {.base = "distilbert.",
               .body = own_names("distilbert.",
                                 {"embeddings.word_embeddings.", "embeddings.position_embeddings.",
                                  "transformer.layer.*.attention.q_lin.", "transformer.layer.*.attention.k_lin.",
                                  "transformer.layer.*.attention.v_lin.", "transformer.layer.*.attention.out_lin.",
                                  "transformer.layer.*.ffn.lin1.", "transformer.layer.*.ffn.lin2."},
                                 {"embeddings.LayerNorm.", "transformer.layer.*.sa_layer_norm.",
                                  "transformer.layer.*.output_layer_norm."}),
               .heads = own_names(
                   "", {"pre_classifier.", "classifier.", "qa_outputs.", "vocab_transform.", "vocab_projector.bias"},
                   {"vocab_layer_norm."}),
               .ignored = {"embeddings.position_ids"},
               .ignored_heads = {"vocab_projector.weight"}},
     .read = read_distilbert,
     .write = write_distilbert,
     .class_of = [](const Options& options) { return class_name("DistilBert", options); }});

TransformersType roberta_type(std::string_view family, std::string_view prefix) {
  return {
      .family = family,
      .architecture = prefix == "Roberta" ? "RobertaForSequenceClassification" : "XLMRobertaForSequenceClassification",
      .names = {.base = "roberta.",
                .body = bert_body("roberta.", "pooler.dense."),
                .heads = own_names("",
                                   {"classifier.dense.", "classifier.out_proj.", "classifier.", "qa_outputs.",
                                    "lm_head.dense.", "lm_head.layer_norm.", "lm_head.bias"},
                                   {}),
                .ignored = {"embeddings.position_ids"},
                .ignored_heads = {"lm_head.decoder."}},
      .read = read_bert,
      .write = write_bert,
      .class_of = [prefix](const Options& options) { return class_name(prefix, options); },
      .adapter_targets = {"query", "value"}};
}
const RegisterTransformersType roberta("roberta", roberta_type("roberta", "Roberta"));
const RegisterTransformersType xlm_roberta("xlm-roberta", roberta_type("xlm_roberta", "XLMRoberta"));

}  // namespace
}  // namespace lacuna
