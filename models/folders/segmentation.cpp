// SegFormer and UperNet in transformers' convention.
#include "models/folders/transformers.h"
#include "models/segmentation/segformer.h"
#include "models/segmentation/upernet.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>

namespace lacuna {
namespace {

using Counts = std::vector<std::int64_t>;

constexpr double ignored = 255;

std::vector<HyperParameter> read_segformer(const ConfigReader& config) {
  if (activation_of(config) != "gelu") config.refuse("hidden_act", "gelu");
  if (config.integers("patch_sizes", {7, 3, 3, 3}) != Counts{7, 3, 3, 3}) config.refuse("patch_sizes", "7, 3, 3, 3");
  if (config.integers("strides", {4, 2, 2, 2}) != Counts{4, 2, 2, 2}) config.refuse("strides", "4, 2, 2, 2");
  std::vector<double> ratios = config.numbers("mlp_ratios");
  if (ratios.empty()) ratios = {4, 4, 4, 4};
  return {{"in_channels", config.integer("num_channels", 3)},
          {"embed_dims", config.integers("hidden_sizes", {32, 64, 160, 256})},
          {"depths", config.integers("depths", {2, 2, 2, 2})},
          {"num_heads", config.integers("num_attention_heads", {1, 2, 5, 8})},
          {"sr_ratios", config.integers("sr_ratios", {8, 4, 2, 1})},
          {"mlp_ratios", ratios},
          {"decoder_hidden_size", config.integer("decoder_hidden_size", 256)},
          {"classifier_dropout", config.real("classifier_dropout_prob", 0.1)},
          {"proj_drop_rate", config.real("hidden_dropout_prob", 0)},
          {"attn_drop_rate", config.real("attention_probs_dropout_prob", 0)},
          {"drop_path_rate", config.real("drop_path_rate", 0.1)}};
}

/// transformers takes whole numbers alone; others stay, for it to refuse.
nlohmann::ordered_json whole_numbers(const std::vector<double>& values) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const double value : values)
    if (value == std::floor(value))
      list.push_back(static_cast<std::int64_t>(value));
    else
      list.push_back(value);
  return list;
}

std::string write_segformer(const Options& options, nlohmann::ordered_json& config) {
  const auto& segformer = options.as<SegFormerOptions>();
  if (segformer.norm_eps != 1e-5) return fmt::format("its norm_eps is {}", segformer.norm_eps);
  if (!segformer.qkv_bias) return "its qkv_bias is false";
  config = {{"num_channels", segformer.in_channels},
            {"num_encoder_blocks", 4},
            {"hidden_sizes", segformer.embed_dims},
            {"depths", segformer.depths},
            {"num_attention_heads", segformer.num_heads},
            {"sr_ratios", segformer.sr_ratios},
            {"mlp_ratios", whole_numbers(segformer.mlp_ratios)},
            {"patch_sizes", {7, 3, 3, 3}},
            {"strides", {4, 2, 2, 2}},
            {"hidden_act", "gelu"},
            {"decoder_hidden_size", segformer.decoder_hidden_size},
            {"classifier_dropout_prob", segformer.classifier_dropout},
            {"hidden_dropout_prob", segformer.proj_drop_rate},
            {"attention_probs_dropout_prob", segformer.attn_drop_rate},
            {"drop_path_rate", segformer.drop_path_rate}};
  return {};
}

const RegisterTransformersType segformer(
    "segformer", {.family = "segformer",
                  .architecture = "SegformerForSemanticSegmentation",
                  .names = {.base = "segformer.encoder.",
                            .body = {{"patch_embeddings.0.proj.", "backbone.patch_embed.proj."},
                                     {"patch_embeddings.0.layer_norm.", "backbone.patch_embed.norm."},
                                     {"patch_embeddings.*.proj.", "backbone.stages.*.downsample.proj."},
                                     {"patch_embeddings.*.layer_norm.", "backbone.stages.*.downsample.norm."},
                                     {"block.*.*.layer_norm_1.", "backbone.stages.*.blocks.*.norm1."},
                                     {"block.*.*.layer_norm_2.", "backbone.stages.*.blocks.*.norm2."},
                                     {"block.*.*.attention.self.query.", "backbone.stages.*.blocks.*.attn.q."},
                                     {"block.*.*.attention.self.key.", "backbone.stages.*.blocks.*.attn.kv.", 0, 2},
                                     {"block.*.*.attention.self.value.", "backbone.stages.*.blocks.*.attn.kv.", 1, 2},
                                     {"block.*.*.attention.self.sr.", "backbone.stages.*.blocks.*.attn.sr."},
                                     {"block.*.*.attention.self.layer_norm.", "backbone.stages.*.blocks.*.attn.norm."},
                                     {"block.*.*.attention.output.dense.", "backbone.stages.*.blocks.*.attn.proj."},
                                     {"block.*.*.mlp.dense1.", "backbone.stages.*.blocks.*.mlp.fc1."},
                                     {"block.*.*.mlp.dwconv.dwconv.", "backbone.stages.*.blocks.*.mlp.dwconv."},
                                     {"block.*.*.mlp.dense2.", "backbone.stages.*.blocks.*.mlp.fc2."},
                                     {"layer_norm.*.", "backbone.stages.*.norm."}},
                            .heads = {{"decode_head.", "decode_head."}},
                            .ignored_heads = {"classifier."}},  // of SegformerForImageClassification
                  .read = read_segformer,
                  .write = write_segformer,
                  .problem = "semantic_segmentation",
                  .settings = {{"semantic_loss_ignore_index", &ModelFolder::data, "ignore", ignored}},
                  .image_processor = "SegformerImageProcessor"});

/// The `model_type` of a backbone's family; empty: transformers has none of it.
std::string backbone_type_of(const std::string& family) {
  for (const std::string& name : transformers_types().names())
    if (transformers_types().get(name).family == family && transformers_types().get(name).write) return name;
  return {};
}

const std::vector<std::string>& all_stages() {
  static const std::vector<std::string> stages{"stage1", "stage2", "stage3", "stage4"};
  return stages;
}

std::vector<HyperParameter> read_upernet(const ConfigReader& config) {
  if (!config.says("backbone_config") || !config.json().at("backbone_config").is_object())
    config.refuse("backbone_config", "the description of a backbone");
  const ConfigReader own(config.json().at("backbone_config"), config.file());
  const std::string type = own.text("model_type", "");
  if (!transformers_types().contains(type)) config.refuse("backbone_config", "a `model_type` that Lacuna has");
  if (own.says("out_features") && own.texts("out_features") != all_stages())
    own.refuse("out_features", "stage1 to stage4");
  if (config.flag("auxiliary_concat_input", false)) config.refuse("auxiliary_concat_input", "false");
  if (config.integer("auxiliary_num_convs", 1) != 1) config.refuse("auxiliary_num_convs", "1");
  BackboneOptions backbone{.name = std::string(transformers_types().get(type).family)};
  std::int64_t channels = 3;
  for (HyperParameter& value : transformers_types().get(type).read(own)) {
    if (value.key == "in_channels") channels = own.integer("num_channels", channels);
    if (value.key != "image_size" && value.key != "in_channels") backbone.values.push_back(std::move(value));
  }
  return {{"backbone", backbone.tree()},
          {"in_channels", channels},
          {"hidden_size", config.integer("hidden_size", 512)},
          {"pool_scales", config.integers("pool_scales", {1, 2, 3, 6})},
          {"aux", config.flag("use_auxiliary_head", true)},
          {"aux_channels", config.integer("auxiliary_channels", 256)}};
}

std::string write_upernet(const Options& options, nlohmann::ordered_json& config) {
  const auto& upernet = options.as<UperNetOptions>();
  if (!upernet.map_norm) return "its map_norm is false";
  if (upernet.maps != Counts{-4, -3, -2, -1} && upernet.maps != Counts{0, 1, 2, 3}) return "its maps are not all";
  std::vector<HyperParameter> values = upernet.backbone.values;
  // transformers' backbones of Swin do so without a key.
  if (const Tree* const partitions = find_value(values, "always_partition");
      partitions != nullptr && partitions->text != "true")
    return "its backbone's always_partition is false";
  std::erase_if(values, [](const HyperParameter& value) { return value.key == "always_partition"; });
  values.push_back({"image_size", codec_of<ImageSize>().write(&upernet.image_size)});
  const ModelDescription backbone = describe_model(upernet.backbone.name, values);
  const std::string type = backbone_type_of(backbone.family);
  if (type.empty()) return fmt::format("it has no backbone like {}", backbone.family);
  nlohmann::ordered_json own;
  if (std::string refusal = transformers_types().get(type).write(backbone.options, own); !refusal.empty())
    return refusal;
  own["model_type"] = type;
  own["out_features"] = all_stages();
  config = {{"backbone_config", own},
            {"hidden_size", upernet.hidden_size},
            {"pool_scales", upernet.pool_scales},
            {"use_auxiliary_head", upernet.aux},
            {"auxiliary_channels", upernet.aux_channels}};
  return {};
}

/// The backbone's names below `backbone.`, and the heads'.
const TensorNames* upernet_names(const Options& options) {
  static std::deque<std::string> texts;
  static std::map<std::string, TensorNames> tables;
  const std::string type = backbone_type_of(describe_model(options.as<UperNetOptions>().backbone.name, {}).family);
  const auto [table, is_new] = tables.try_emplace(type);
  if (!is_new || type.empty()) return &table->second;
  const auto below = [](std::string_view name) -> std::string_view {
    return texts.emplace_back("backbone." + std::string(name));
  };
  TensorNames& names = table->second;
  for (TensorNameRule rule : transformers_types().get(type).names.body) {
    rule.theirs = below(rule.theirs);
    rule.ours = below(rule.ours);
    names.body.push_back(rule);
  }
  names.body.push_back({"backbone.hidden_states_norms.stage*.", "backbone.norm*.", 0, 1, -1});
  for (const std::string_view ignored : transformers_types().get(type).names.ignored)
    names.ignored.push_back(below(ignored));
  names.ignored.emplace_back("backbone.swin.layernorm.");  // Swin's last norm, which no map passes
  names.heads = {{"decode_head.", "decode_head."}, {"auxiliary_head.", "auxiliary_head."}};
  return &names;
}

const RegisterTransformersType upernet("upernet",
                                       {.family = "upernet",
                                        .architecture = "UperNetForSemanticSegmentation",
                                        .names = {},
                                        .read = read_upernet,
                                        .write = write_upernet,
                                        .problem = "semantic_segmentation",
                                        .settings = {{"auxiliary_loss_weight", &ModelFolder::task, "aux_weight", 0.4},
                                                     {"loss_ignore_index", &ModelFolder::data, "ignore", ignored}},
                                        .names_of = upernet_names,
                                        .image_processor = "SegformerImageProcessor"});

}  // namespace
}  // namespace lacuna
