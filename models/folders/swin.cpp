// Swin, both versions, in timm's and transformers' conventions.
#include "models/swin.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

std::vector<TimmForm::Keyword> swin_keywords(std::initializer_list<TimmForm::Keyword> more) {
  std::vector<TimmForm::Keyword> all{{"image_size", "img_size"},
                                     {"patch_size", "patch_size"},
                                     {"in_channels", "in_chans"},
                                     {"embed_dim", "embed_dim"},
                                     {"depths", "depths"},
                                     {"num_heads", "num_heads"},
                                     {"window_size", "window_size"},
                                     {"always_partition", "always_partition"},
                                     {"mlp_ratio", "mlp_ratio"},
                                     {"qkv_bias", "qkv_bias"},
                                     {"drop_rate", "drop_rate"},
                                     {"proj_drop_rate", "proj_drop_rate"},
                                     {"drop_path_rate", "drop_path_rate"}};
  all.insert(all.end(), more);
  return all;
}

/// Whether the map of a stage is not made of whole windows.
bool pads_maps(const SwinOptions& swin) {
  const auto [window_height, window_width] = swin.window;
  std::int64_t height = swin.image_size.height / swin.patch_size, width = swin.image_size.width / swin.patch_size;
  for (std::size_t stage = 0; stage < swin.depths.size(); ++stage) {
    if (height % window_height != 0 || width % window_width != 0) return true;
    height = (height + 1) / 2;
    width = (width + 1) / 2;
  }
  return false;
}

template <class S>
std::string swin_that_timm_lacks(const Options& options) {
  const S& swin = options.as<S>();
  return swin.pad_before_shift && pads_maps(swin) ? "its maps are padded before they are shifted" : "";
}

const std::vector<std::string_view> swin_without_effect{"weight_init", "strict_img_size", "dynamic_img_size"};

const RegisterTimmForm swin_of_timm("swin", {.keywords = swin_keywords({}),
                                             .bases = {"swin_base_patch4_window7_224"},
                                             .of_ours = {"pad_before_shift"},
                                             .of_theirs = swin_without_effect,
                                             .pool = "avg",
                                             .refusal = swin_that_timm_lacks<SwinOptions>});
const RegisterTimmForm swin_v2_of_timm("swin_v2", {.keywords = swin_keywords({{"pretrained_window_sizes",
                                                                               "pretrained_window_sizes"}}),
                                                   .bases = {"swinv2_base_window8_256"},
                                                   .of_ours = {"pad_before_shift"},
                                                   .of_theirs = swin_without_effect,
                                                   .pool = "avg",
                                                   .refusal = swin_that_timm_lacks<SwinV2Options>});

/// The names of the encoder, behind `swin.` or `swinv2.`. Merging stands at the end of a stage there, at the start of
/// the next one here.
std::vector<TensorNameRule> swin_encoder_names(std::initializer_list<TensorNameRule> more) {
  std::vector<TensorNameRule> rules{
      {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
      {"embeddings.norm.", "patch_embed.norm."},
      {"encoder.layers.*.blocks.*.attention.output.dense.", "layers.*.blocks.*.attn.proj."},
      {"encoder.layers.*.blocks.*.layernorm_before.", "layers.*.blocks.*.norm1."},
      {"encoder.layers.*.blocks.*.layernorm_after.", "layers.*.blocks.*.norm2."},
      {"encoder.layers.*.blocks.*.intermediate.dense.", "layers.*.blocks.*.mlp.fc1."},
      {"encoder.layers.*.blocks.*.output.dense.", "layers.*.blocks.*.mlp.fc2."},
      {.theirs = "encoder.layers.*.downsample.", .ours = "layers.*.downsample.", .shift = 1},
      {"layernorm.", "norm."}};
  rules.insert(rules.end(), more);
  return rules;
}

std::vector<HyperParameter> read_swin(const ConfigReader& config) {
  if (config.flag("use_absolute_embeddings", false)) config.refuse("use_absolute_embeddings", "false");
  if (activation_of(config) != "gelu") config.refuse("hidden_act", "gelu");
  if (config.real("layer_norm_eps", 1e-5) != 1e-5) config.refuse("layer_norm_eps", "1e-5");
  std::vector<HyperParameter> values{
      {"image_size", config.side("image_size", 224)},      {"patch_size", config.side("patch_size", 4)},
      {"in_channels", config.integer("num_channels", 3)},  {"embed_dim", config.integer("embed_dim", 96)},
      {"depths", config.integers("depths", {2, 2, 6, 2})}, {"num_heads", config.integers("num_heads", {3, 6, 12, 24})},
      {"window_size", config.side("window_size", 7)},      {"mlp_ratio", config.real("mlp_ratio", 4)},
      {"qkv_bias", config.flag("qkv_bias", true)},         {"pad_before_shift", true}};
  for (const auto& [theirs, ours] :
       {std::pair{"hidden_dropout_prob", "proj_drop_rate"}, {"drop_path_rate", "drop_path_rate"}})
    if (config.says(theirs)) values.push_back({ours, config.real(theirs, 0)});
  return values;
}

std::string write_swin(const SwinOptions& swin, nlohmann::ordered_json& config) {
  if (swin.window.first != swin.window.second) return "its window is no square";
  if (pads_maps(swin) && !swin.pad_before_shift) return "its pad_before_shift is false";
  if (swin.always_partition) return "its always_partition is true";
  config = {{"image_size", swin.image_size.height},
            {"patch_size", swin.patch_size},
            {"num_channels", swin.in_channels},
            {"embed_dim", swin.embed_dim},
            {"depths", swin.depths},
            {"num_heads", swin.num_heads},
            {"window_size", swin.window.first},
            {"mlp_ratio", swin.mlp_ratio},
            {"qkv_bias", swin.qkv_bias},
            {"hidden_size", swin.embed_dim << (swin.depths.size() - 1)},
            {"hidden_act", "gelu"},
            {"hidden_dropout_prob", swin.proj_drop_rate},
            {"drop_path_rate", swin.drop_path_rate},
            {"use_absolute_embeddings", false},
            {"layer_norm_eps", 1e-5}};
  return {};
}

const RegisterTransformersType swin(
    "swin", {.family = "swin",
             .architecture = "SwinForImageClassification",
             .names = {.base = "swin.",
                       .body = swin_encoder_names(
                           {{"encoder.layers.*.blocks.*.attention.self.query.", "layers.*.blocks.*.attn.qkv.", 0, 3},
                            {"encoder.layers.*.blocks.*.attention.self.key.", "layers.*.blocks.*.attn.qkv.", 1, 3},
                            {"encoder.layers.*.blocks.*.attention.self.value.", "layers.*.blocks.*.attn.qkv.", 2, 3},
                            {"encoder.layers.*.blocks.*.attention.self.relative_position_bias_table",
                             "layers.*.blocks.*.attn.relative_position_bias_table"},
                            // The modules of transformers 5, and so PEFT's names.
                            {"encoder.layers.*.blocks.*.attention.q_proj.", "layers.*.blocks.*.attn.qkv.", 0, 3},
                            {"encoder.layers.*.blocks.*.attention.k_proj.", "layers.*.blocks.*.attn.qkv.", 1, 3},
                            {"encoder.layers.*.blocks.*.attention.v_proj.", "layers.*.blocks.*.attn.qkv.", 2, 3},
                            {"encoder.layers.*.blocks.*.attention.o_proj.", "layers.*.blocks.*.attn.proj."},
                            {"encoder.layers.*.blocks.*.attention.relative_position_bias.relative_position_bias_table",
                             "layers.*.blocks.*.attn.relative_position_bias_table"},
                            {"encoder.layers.*.blocks.*.mlp.fc1.", "layers.*.blocks.*.mlp.fc1."},
                            {"encoder.layers.*.blocks.*.mlp.fc2.", "layers.*.blocks.*.mlp.fc2."}}),
                       .heads = {{"classifier.", "head.fc."}},
                       .ignored = {"encoder.layers.*.blocks.*.attention.self.relative_position_index"}},
             .read = read_swin,
             .write = [](const Options& options, nlohmann::ordered_json& config) {
               return write_swin(options.as<SwinOptions>(), config);
             }});

const RegisterTransformersType swin_v2(
    "swinv2",
    {.family = "swin_v2",
     .architecture = "Swinv2ForImageClassification",
     .names =
         {.base = "swinv2.",
          .body = swin_encoder_names(
              {{"encoder.layers.*.blocks.*.attention.self.query.weight", "layers.*.blocks.*.attn.qkv.weight", 0, 3},
               {"encoder.layers.*.blocks.*.attention.self.key.weight", "layers.*.blocks.*.attn.qkv.weight", 1, 3},
               {"encoder.layers.*.blocks.*.attention.self.value.weight", "layers.*.blocks.*.attn.qkv.weight", 2, 3},
               {"encoder.layers.*.blocks.*.attention.self.query.bias", "layers.*.blocks.*.attn.q_bias"},
               {"encoder.layers.*.blocks.*.attention.self.value.bias", "layers.*.blocks.*.attn.v_bias"},
               {"encoder.layers.*.blocks.*.attention.self.logit_scale", "layers.*.blocks.*.attn.logit_scale"},
               {"encoder.layers.*.blocks.*.attention.self.continuous_position_bias_mlp.",
                "layers.*.blocks.*.attn.cpb_mlp."}}),
          .heads = {{"classifier.", "head.fc."}},
          .ignored = {"encoder.layers.*.blocks.*.attention.self.relative_position_index",
                      "encoder.layers.*.blocks.*.attention.self.relative_coords_table"}},
     .read =
         [](const ConfigReader& config) {
           std::vector<HyperParameter> values = read_swin(config);
           std::vector<std::int64_t> windows = config.integers("pretrained_window_sizes", {});
           const std::size_t stages = config.integers("depths", {2, 2, 6, 2}).size();
           if (windows.size() > stages) windows.resize(stages);  // the default is for four
           if (!windows.empty()) values.push_back({"pretrained_window_sizes", windows});
           return values;
         },
     .write =
         [](const Options& options, nlohmann::ordered_json& config) {
           const auto& own = options.as<SwinV2Options>();
           std::string refusal = write_swin(own, config);
           config["pretrained_window_sizes"] = own.pretrained_windows;
           return refusal;
         }});

}  // namespace
}  // namespace lacuna
