// ViT and DeiT in timm's and transformers' conventions.
#include "models/vit.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

std::vector<TimmForm::Keyword> vit_keywords(std::initializer_list<TimmForm::Keyword> more) {
  std::vector<TimmForm::Keyword> all{{"image_size", "img_size"},
                                     {"patch_size", "patch_size"},
                                     {"in_channels", "in_chans"},
                                     {"embed_dim", "embed_dim"},
                                     {"depth", "depth"},
                                     {"num_heads", "num_heads"},
                                     {"mlp_ratio", "mlp_ratio"},
                                     {"qkv_bias", "qkv_bias"},
                                     {"init_values", "init_values"},
                                     {"drop_rate", "drop_rate"},
                                     {"pos_drop_rate", "pos_drop_rate"},
                                     {"proj_drop_rate", "proj_drop_rate"},
                                     {"attn_drop_rate", "attn_drop_rate"},
                                     {"drop_path_rate", "drop_path_rate"},
                                     {"activation", "act_layer"}};
  all.insert(all.end(), more);
  return all;
}

const std::vector<std::string_view> vit_without_effect{"weight_init", "fix_init", "dynamic_img_size", "dynamic_img_pad",
                                                       "strict_img_size"};

const RegisterTimmForm vit_of_timm("vit", {.keywords = vit_keywords({{"class_token", "class_token"},
                                                                     {"global_pool", "global_pool"},
                                                                     {"reg_tokens", "reg_tokens"},
                                                                     {"no_embed_class", "no_embed_class"},
                                                                     {"pre_norm", "pre_norm"}}),
                                           .bases = {"vit_base_patch16_224", "vit_base_patch16_clip_224",
                                                     "vit_giant_patch14_dinov2"},
                                           .own = {"vit_cifar"},
                                           .of_ours = {"attention"},
                                           .of_theirs = vit_without_effect,
                                           .refusal = [](const Options& options) {
                                             const bool both =
                                                 options.as<VitOptions>().pool == VitOptions::Pool::token_mean;
                                             return std::string(both ? "its global_pool is token_avg" : "");
                                           }});
const RegisterTimmForm deit_of_timm("deit_distilled", {.keywords = vit_keywords({}),
                                                       .bases = {"deit_base_distilled_patch16_224"},
                                                       .of_ours = {"attention"},
                                                       .of_theirs = vit_without_effect,
                                                       .pool = "token"});

/// The names of the encoder, behind `vit.` or `deit.`.
std::vector<TensorNameRule> vit_encoder_names(std::initializer_list<TensorNameRule> more = {}) {
  std::vector<TensorNameRule> rules{{"embeddings.cls_token", "cls_token"},
                                    {"embeddings.position_embeddings", "pos_embed"},
                                    {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
                                    {"encoder.layer.*.attention.attention.query.", "blocks.*.attn.qkv.", 0, 3},
                                    {"encoder.layer.*.attention.attention.key.", "blocks.*.attn.qkv.", 1, 3},
                                    {"encoder.layer.*.attention.attention.value.", "blocks.*.attn.qkv.", 2, 3},
                                    {"encoder.layer.*.attention.output.dense.", "blocks.*.attn.proj."},
                                    {"encoder.layer.*.layernorm_before.", "blocks.*.norm1."},
                                    {"encoder.layer.*.layernorm_after.", "blocks.*.norm2."},
                                    {"encoder.layer.*.intermediate.dense.", "blocks.*.mlp.fc1."},
                                    {"encoder.layer.*.output.dense.", "blocks.*.mlp.fc2."},
                                    {"layernorm.", "norm."},
                                    // The modules of transformers 5, and so PEFT's names.
                                    {"layers.*.attention.q_proj.", "blocks.*.attn.qkv.", 0, 3},
                                    {"layers.*.attention.k_proj.", "blocks.*.attn.qkv.", 1, 3},
                                    {"layers.*.attention.v_proj.", "blocks.*.attn.qkv.", 2, 3},
                                    {"layers.*.attention.o_proj.", "blocks.*.attn.proj."},
                                    {"layers.*.layernorm_before.", "blocks.*.norm1."},
                                    {"layers.*.layernorm_after.", "blocks.*.norm2."},
                                    {"layers.*.mlp.fc1.", "blocks.*.mlp.fc1."},
                                    {"layers.*.mlp.fc2.", "blocks.*.mlp.fc2."}};
  rules.insert(rules.end(), more);
  return rules;
}

std::vector<HyperParameter> read_vit(const ConfigReader& config) {
  const std::int64_t width = config.integer("hidden_size", 768);
  const std::int64_t hidden = config.integer("intermediate_size", 3072);
  if (width < 1) config.refuse("hidden_size", "1 or more");
  std::vector<HyperParameter> values{{"image_size", config.side("image_size", 224)},
                                     {"patch_size", config.side("patch_size", 16)},
                                     {"in_channels", config.integer("num_channels", 3)},
                                     {"embed_dim", width},
                                     {"depth", config.integer("num_hidden_layers", 12)},
                                     {"num_heads", config.integer("num_attention_heads", 12)},
                                     {"mlp_ratio", ratio_of(hidden, width)},
                                     {"qkv_bias", config.flag("qkv_bias", true)},
                                     {"activation", activation_of(config)},
                                     {"norm_eps", config.real("layer_norm_eps", 1e-12)}};
  for (const auto& [theirs, ours] : {std::pair{"hidden_dropout_prob", "proj_drop_rate"},
                                     {"hidden_dropout_prob", "pos_drop_rate"},
                                     {"attention_probs_dropout_prob", "attn_drop_rate"}})
    if (config.says(theirs)) values.push_back({ours, config.real(theirs, 0)});
  return values;
}

template <class V>
std::string write_vit(const Options& options, nlohmann::ordered_json& config) {
  const VitOptions& vit = options.as<V>();
  if (vit.pre_norm) return "its pre_norm is true";
  if (vit.no_embed_class) return "its no_embed_class is true";
  if (vit.init_values != 0) return "it has layer scale";
  if (vit.mlp != VitOptions::Mlp::plain) return fmt::format("its mlp_layer is {}", to_name(vit.mlp));
  if (vit.pool != VitOptions::Pool::token) return fmt::format("its global_pool is {}", to_name(vit.pool));
  if (vit.reg_tokens > 0) return "it has register tokens";
  config = {{"image_size", vit.image_size.height},
            {"patch_size", vit.patch_size},
            {"num_channels", vit.in_channels},
            {"hidden_size", vit.embed_dim},
            {"num_hidden_layers", vit.depth},
            {"num_attention_heads", vit.num_heads},
            {"intermediate_size", static_cast<std::int64_t>(static_cast<double>(vit.embed_dim) * vit.mlp_ratio)},
            {"hidden_act", hidden_act_of(std::string(to_name(vit.activation)))},
            {"qkv_bias", vit.qkv_bias},
            {"layer_norm_eps", vit.norm_eps},
            {"hidden_dropout_prob", vit.proj_drop_rate},
            {"attention_probs_dropout_prob", vit.attn_drop_rate}};
  return {};
}

const RegisterTransformersType vit("vit", {.family = "vit",
                                           .architecture = "ViTForImageClassification",
                                           .names = {.base = "vit.",
                                                     .body = vit_encoder_names(),
                                                     .heads = {{"classifier.", "head."}},
                                                     .ignored = {"pooler.dense."}},
                                           .read = read_vit,
                                           .write = write_vit<VitOptions>});
const RegisterTransformersType deit(
    "deit", {.family = "deit_distilled",
             .architecture = "DeiTForImageClassificationWithTeacher",
             .names = {.base = "deit.",
                       .body = vit_encoder_names({{"embeddings.distillation_token", "dist_token"}}),
                       .heads = {{"cls_classifier.", "head."}, {"distillation_classifier.", "head_dist."}},
                       .ignored = {"pooler.dense."}},
             .read = read_vit,
             .write = write_vit<DistilledVitOptions>});

}  // namespace
}  // namespace lacuna
