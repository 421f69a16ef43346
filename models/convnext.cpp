// ConvNeXt (Liu et al. 2022) as timm has it.
#include "models/image_model.h"
#include "models/registry.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/region.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>

namespace lacuna {
namespace {

struct ConvNextOptions {
  ImageSize image_size;
  std::int64_t patch_size = 4, in_channels = 3, num_classes = 1000;
  std::vector<std::int64_t> depths = {3, 3, 9, 3};       // blocks of each stage
  std::vector<std::int64_t> dims = {96, 192, 384, 768};  // channels of each stage
  std::int64_t kernel_size = 7;                          // of the depthwise convolutions
  double layer_scale = 1e-6;                             // initial value; 0: none
  double norm_eps = 1e-6, head_norm_eps = 1e-6;          // of the norms, and of the one before the classifier
  double drop_rate = 0;                                  // before the classifier
  double drop_path_rate = 0;                             // of the last block; earlier ones less
};

nn::WeightInit normal_init() { return {init::truncated_normal(.02), init::constant(0)}; }

/// x + γ · mlp(norm(depthwise convolution of x)).
class Block final : public Module {
 public:
  Block(Module& parent, std::string_view name, const ConvNextOptions& options, std::int64_t channels, double drop_path)
      : Module(parent, name),
        convolution_(*this, "conv_dw", channels, channels,
                     {.kernel = options.kernel_size,
                      .padding = options.kernel_size / 2,
                      .groups = channels,
                      .init = normal_init()}),
        norm_(*this, "norm", channels, options.norm_eps),
        mlp_(*this, "mlp", channels, 4 * channels, {.init = normal_init()}),
        drop_path_(*this, "drop_path", drop_path) {
    set_role(Role::block);
    if (options.layer_scale > 0) scale_.emplace(*this, "gamma", Shape{channels}, init::constant(options.layer_scale));
  }

  /// x [N, H, W, channels], and so the result.
  Variable forward(Variable x) const {
    return run_region(*this, std::move(x), [this](Variable in) {
      const Scope scope(*this);
      Variable h = norm_.forward(convolution_.forward(in));
      h = mlp_.forward(std::move(h), scale_ ? scale_->variable() : Variable());
      return std::move(in) + drop_path_.forward(std::move(h));
    });
  }

 private:
  nn::Conv2d convolution_;
  nn::LayerNorm norm_;
  nn::Mlp mlp_;
  nn::DropPath drop_path_;
  std::optional<Parameter> scale_;  // γ [channels]
};

/// Blocks behind a norm and a convolution that halves the image; the first stage has blocks only.
class Stage final : public Module {
 public:
  Stage(Module& parent, std::string_view name, const ConvNextOptions& options, std::size_t number,
        const std::vector<double>& drop_paths)
      : Module(parent, name) {
    const std::int64_t channels = options.dims[number];
    if (number > 0) {
      const std::int64_t in = options.dims[number - 1];
      norm_.emplace(*this, "downsample.0", in, options.norm_eps);
      reduction_.emplace(*this, "downsample.1", in, channels,
                         nn::Conv2dOptions{.kernel = 2, .stride = 2, .init = normal_init()});
    }
    for (std::size_t i = 0; i < drop_paths.size(); ++i)
      blocks_.push_back(std::make_unique<Block>(*this, fmt::format("blocks.{}", i), options, channels, drop_paths[i]));
  }
  Variable forward(Variable x) const {
    if (reduction_) {
      const Scope scope(*this);
      x = reduction_->forward(norm_->forward(std::move(x)));
    }
    return run_sequence(blocks_, std::move(x),
                        [](const Block& block, Variable in) { return block.forward(std::move(in)); });
  }

 private:
  std::optional<nn::LayerNorm> norm_;
  std::optional<nn::Conv2d> reduction_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

/// timm's ConvNeXt: the same parameter names, shapes and initial distributions. Takes images of any size that leaves
/// the last stage a pixel.
class ConvNext final : public ImageModel {
 public:
  ConvNext(const ModelContext& context, const ConvNextOptions& options)
      : ImageModel(context, {options.image_size, options.in_channels, options.num_classes, {"head.fc"}, "stem.0"}),
        smallest_(options.patch_size << (options.dims.size() - 1)),
        stem_(*this, "stem.0", options.in_channels, options.dims[0],
              {.kernel = options.patch_size, .stride = options.patch_size, .init = normal_init()}),
        stem_norm_(*this, "stem.1", options.dims[0], options.norm_eps),
        stages_(make_stages(options)),
        norm_(*this, "head.norm", options.dims.back(), options.head_norm_eps),
        dropout_(*this, "head.drop", options.drop_rate),
        head_(*this, "head.fc", options.dims.back(), options.num_classes, {.init = normal_init()}) {}

 private:
  /// Stochastic depth grows linearly from the first block of all (0) to the last.
  std::vector<std::unique_ptr<Stage>> make_stages(const ConvNextOptions& options) {
    std::vector<std::unique_ptr<Stage>> stages;
    const std::int64_t all = std::accumulate(options.depths.begin(), options.depths.end(), std::int64_t{0});
    std::int64_t block = 0;
    for (std::size_t i = 0; i < options.depths.size(); ++i) {
      std::vector<double> drop_paths(static_cast<std::size_t>(options.depths[i]));
      for (double& rate : drop_paths) rate = nn::drop_path_rate(options.drop_path_rate, block++, all);
      stages.push_back(std::make_unique<Stage>(*this, fmt::format("stages.{}", i), options, i, drop_paths));
    }
    return stages;
  }
  Variable classify(Variable x) override {
    const Scope scope(*this);
    x = stem_norm_.forward(stem_.forward(std::move(x)));
    for (const std::unique_ptr<Stage>& stage : stages_) x = stage->forward(std::move(x));
    return head_.forward(dropout_.forward(norm_.forward(global_avg_pool(std::move(x)))));
  }
  bool takes(std::int64_t height, std::int64_t width) const override { return std::min(height, width) >= smallest_; }

  std::int64_t smallest_;  // pixels
  nn::Conv2d stem_;
  nn::LayerNorm stem_norm_;
  std::vector<std::unique_ptr<Stage>> stages_;
  nn::LayerNorm norm_;
  nn::Dropout dropout_;
  nn::Linear head_;
};

ConvNextOptions read_options(HyperParameters& parameters) {
  constexpr std::int64_t largest_extent = 1 << 16;
  constexpr std::size_t most_stages = 8;
  const ConvNextOptions defaults;
  ConvNextOptions options;
  options.image_size = parameters.image_size();
  options.patch_size = parameters.integer("patch_size", defaults.patch_size, 1, largest_extent);
  options.in_channels = parameters.integer("in_channels", defaults.in_channels, 1, largest_extent);
  options.num_classes = parameters.integer("num_classes", defaults.num_classes, 1, 1 << 24);
  options.depths = parameters.integers("depths", defaults.depths);
  options.dims = parameters.integers("dims", defaults.dims);
  options.kernel_size = parameters.integer("kernel_size", defaults.kernel_size, 1, 15);
  options.layer_scale = parameters.real("ls_init_value", defaults.layer_scale);
  options.norm_eps = parameters.real("norm_eps", defaults.norm_eps, 1e-30, 1);
  options.head_norm_eps = parameters.real("head_norm_eps", options.norm_eps, 1e-30, 1);
  options.drop_rate = parameters.real("drop_rate", 0, 0, 1);
  options.drop_path_rate = parameters.real("drop_path_rate", 0, 0, 1);
  if (options.depths.size() != options.dims.size() || options.dims.size() > most_stages)
    parameters.add_problem("dims", fmt::format("`dims` names {} stages, but `depths` {}; at most {}",
                                               options.dims.size(), options.depths.size(), most_stages));
  for (const std::int64_t dim : options.dims)
    if (dim > largest_extent)
      parameters.add_problem("dims", fmt::format("`dims` of {}: expected at most {}", dim, largest_extent));
  for (const std::int64_t depth : options.depths)
    if (depth > 4096) parameters.add_problem("depths", fmt::format("`depths` of {}: expected at most 4096", depth));
  if (options.kernel_size % 2 == 0)
    parameters.add_problem("kernel_size", fmt::format("`kernel_size` {} must be odd", options.kernel_size));
  const std::int64_t side = std::min(options.image_size.height, options.image_size.width);
  if (options.dims.size() <= most_stages && side < options.patch_size << (options.dims.size() - 1))
    parameters.add_problem("image_size", fmt::format("`image_size` {} leaves the last stage no pixel: expected {} or "
                                                     "more",
                                                     side, options.patch_size << (options.dims.size() - 1)));
  return options;
}

const RegisterFamily convnext("convnext", [](HyperParameters& parameters) -> ModelFactory {
  return [options = read_options(parameters)](const ModelContext& context) {
    return std::make_unique<ConvNext>(context, options);
  };
});

using List = std::vector<std::int64_t>;

std::vector<HyperParameter> form(const List& depths, const List& dims) { return {{"depths", depths}, {"dims", dims}}; }

const List deep{3, 3, 27, 3};

const RegisterPreset presets[] = {
    {"convnext_tiny", "convnext", form({3, 3, 9, 3}, {96, 192, 384, 768}), imagenet_images(0.95)},
    {"convnext_small", "convnext", form(deep, {96, 192, 384, 768}), imagenet_images(0.95)},
    {"convnext_base", "convnext", form(deep, {128, 256, 512, 1024}), imagenet_images(0.875)},
    {"convnext_large", "convnext", form(deep, {192, 384, 768, 1536}), imagenet_images(0.875)},
    {"convnext_xlarge", "convnext", form(deep, {256, 512, 1024, 2048}), imagenet_images(0.875)},
};

}  // namespace
}  // namespace lacuna
