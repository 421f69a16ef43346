// ResNets in timm's and transformers' conventions.
#include "models/resnet.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

std::string resnet_that_timm_lacks(const Options& options) {
  const auto& resnet = options.as<ResNetOptions>();
  constexpr std::int64_t timms_width = 64;
  if (resnet.stem == ResNetOptions::Stem::imagenet && resnet.stem_width != timms_width)
    return fmt::format("its stem_width is {}, and timm's is {}", resnet.stem_width, timms_width);
  return {};
}

const RegisterTimmForm resnet_of_timm("resnet", {.keywords = {{"in_channels", "in_chans"},
                                                              {"layers", "layers"},
                                                              {"channels", "channels"},
                                                              {"cardinality", "cardinality"},
                                                              {"base_width", "base_width"},
                                                              {"stem_width", "stem_width"},
                                                              {"avg_down", "avg_down"},
                                                              {"zero_init_last", "zero_init_last"},
                                                              {"drop_rate", "drop_rate"},
                                                              {"drop_path_rate", "drop_path_rate"}},
                                                 .bases = {"resnet50", "resnet18", "resnet50d", "resnet18d"},
                                                 .own = {"resnet20", "resnet56", "resnet18_cifar"},
                                                 .of_theirs = {"drop_block_rate"},
                                                 .pool = "avg",
                                                 .refusal = resnet_that_timm_lacks});

constexpr std::int64_t expansion = 4;  // of bottlenecks

std::vector<HyperParameter> read_resnet(const ConfigReader& config) {
  const std::string block = config.text("layer_type", "bottleneck");
  if (block != "bottleneck" && block != "basic") config.refuse("layer_type", "bottleneck or basic");
  for (const char* const flag : {"downsample_in_first_stage", "downsample_in_bottleneck"})
    if (config.flag(flag, false)) config.refuse(flag, "false");
  if (config.text("hidden_act", "relu") != "relu") config.refuse("hidden_act", "relu");
  std::vector<std::int64_t> channels = config.integers("hidden_sizes", {256, 512, 1024, 2048});
  if (block == "bottleneck")
    for (std::int64_t& width : channels) {
      if (width % expansion != 0) config.refuse("hidden_sizes", "multiples of 4");
      width /= expansion;
    }
  return {{"in_channels", config.integer("num_channels", 3)},
          {"block", block},
          {"layers", config.integers("depths", {3, 4, 6, 3})},
          {"channels", channels},
          {"stem_width", config.integer("embedding_size", 64)}};
}

std::string write_resnet(const Options& options, nlohmann::ordered_json& config) {
  const auto& resnet = options.as<ResNetOptions>();
  if (resnet.stem != ResNetOptions::Stem::imagenet) return fmt::format("its stem is {}", to_name(resnet.stem));
  if (resnet.average_shortcut) return "its avg_down is true";
  if (resnet.cardinality != 1 || resnet.base_width != 64) return "its blocks are groups";
  std::vector<std::int64_t> sizes = resnet.channels;
  for (std::int64_t& size : sizes) size *= resnet.block == ResNetOptions::Block::bottleneck ? expansion : 1;
  config = {{"num_channels", resnet.in_channels},
            {"embedding_size", resnet.stem_width},
            {"hidden_sizes", sizes},
            {"depths", resnet.layers},
            {"layer_type", to_name(resnet.block)},
            {"hidden_act", "relu"},
            {"downsample_in_first_stage", false},
            {"downsample_in_bottleneck", false}};
  return {};
}

const RegisterTransformersType resnet(
    "resnet",
    {.family = "resnet",
     .architecture = "ResNetForImageClassification",
     .names = {.base = "resnet.",
               .body = {{"embedder.embedder.convolution.", "conv1."},
                        {"embedder.embedder.normalization.", "bn1."},
                        {"encoder.stages.*.layers.*.layer.0.convolution.", "layer*.*.conv1.", 0, 1, 1},
                        {"encoder.stages.*.layers.*.layer.0.normalization.", "layer*.*.bn1.", 0, 1, 1},
                        {"encoder.stages.*.layers.*.layer.1.convolution.", "layer*.*.conv2.", 0, 1, 1},
                        {"encoder.stages.*.layers.*.layer.1.normalization.", "layer*.*.bn2.", 0, 1, 1},
                        {"encoder.stages.*.layers.*.layer.2.convolution.", "layer*.*.conv3.", 0, 1, 1},
                        {"encoder.stages.*.layers.*.layer.2.normalization.", "layer*.*.bn3.", 0, 1, 1},
                        {"encoder.stages.*.layers.*.shortcut.convolution.", "layer*.*.downsample.0.", 0, 1, 1},
                        {"encoder.stages.*.layers.*.shortcut.normalization.", "layer*.*.downsample.1.", 0, 1, 1}},
               .heads = {{"classifier.1.", "fc."}}},
     .read = read_resnet,
     .write = write_resnet});

}  // namespace
}  // namespace lacuna
