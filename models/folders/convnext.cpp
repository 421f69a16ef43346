// ConvNeXt in timm's and transformers' conventions.
#include "models/convnext.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

std::string convnext_that_timm_lacks(const Options& options) {
  const auto& convnext = options.as<ConvNextOptions>();
  if (convnext.head_norm_eps == convnext.norm_eps) return {};
  return fmt::format("its head_norm_eps is {}, and its norm_eps {}", convnext.head_norm_eps.value(), convnext.norm_eps);
}

const RegisterTimmForm convnext_of_timm("convnext", {.keywords = {{"in_channels", "in_chans"},
                                                                  {"patch_size", "patch_size"},
                                                                  {"depths", "depths"},
                                                                  {"dims", "dims"},
                                                                  {"kernel_size", "kernel_sizes"},
                                                                  {"ls_init_value", "ls_init_value"},
                                                                  {"norm_eps", "norm_eps"},
                                                                  {"drop_rate", "drop_rate"},
                                                                  {"drop_path_rate", "drop_path_rate"}},
                                                     .bases = {"convnext_base"},
                                                     .of_ours = {"head_norm_eps"},
                                                     .pool = "avg",
                                                     .refusal = convnext_that_timm_lacks});

constexpr double inner_eps = 1e-6, last_eps = 1e-12;  // transformers'

std::vector<HyperParameter> read_convnext(const ConfigReader& config) {
  if (activation_of(config) != "gelu") config.refuse("hidden_act", "gelu");
  std::vector<HyperParameter> values{{"image_size", config.side("image_size", 224)},
                                     {"in_channels", config.integer("num_channels", 3)},
                                     {"patch_size", config.side("patch_size", 4)},
                                     {"depths", config.integers("depths", {3, 3, 9, 3})},
                                     {"dims", config.integers("hidden_sizes", {96, 192, 384, 768})},
                                     {"ls_init_value", config.real("layer_scale_init_value", 1e-6)},
                                     {"head_norm_eps", config.real("layer_norm_eps", last_eps)}};
  if (config.says("drop_path_rate")) values.push_back({"drop_path_rate", config.real("drop_path_rate", 0)});
  return values;
}

std::string write_convnext(const Options& options, nlohmann::ordered_json& config) {
  const auto& convnext = options.as<ConvNextOptions>();
  if (convnext.kernel_size != 7) return fmt::format("its kernel_size is {}", convnext.kernel_size);
  if (convnext.norm_eps != inner_eps) return fmt::format("its norm_eps is {}", convnext.norm_eps);
  config = {{"image_size", convnext.image_size.height},
            {"num_channels", convnext.in_channels},
            {"patch_size", convnext.patch_size},
            {"num_stages", std::ssize(convnext.depths)},
            {"depths", convnext.depths},
            {"hidden_sizes", convnext.dims},
            {"hidden_act", "gelu"},
            {"layer_scale_init_value", convnext.layer_scale},
            {"layer_norm_eps", convnext.head_norm_eps.value()},
            {"drop_path_rate", convnext.drop_path_rate}};
  return {};
}

const RegisterTransformersType convnext(
    "convnext", {.family = "convnext",
                 .architecture = "ConvNextForImageClassification",
                 .names = {.base = "convnext.",
                           .body = {{"embeddings.patch_embeddings.", "stem.0."},
                                    {"embeddings.layernorm.", "stem.1."},
                                    {"encoder.stages.*.layers.*.dwconv.", "stages.*.blocks.*.conv_dw."},
                                    {"encoder.stages.*.layers.*.layernorm.", "stages.*.blocks.*.norm."},
                                    {"encoder.stages.*.layers.*.pwconv1.", "stages.*.blocks.*.mlp.fc1."},
                                    {"encoder.stages.*.layers.*.pwconv2.", "stages.*.blocks.*.mlp.fc2."},
                                    {"encoder.stages.*.layers.*.layer_scale_parameter", "stages.*.blocks.*.gamma"},
                                    {"encoder.stages.*.downsampling_layer.", "stages.*.downsample."},
                                    {"layernorm.", "head.norm."}},
                           .heads = {{"classifier.", "head.fc."}}},
                 .read = read_convnext,
                 .write = write_convnext});

}  // namespace
}  // namespace lacuna
