// ConvNeXt (Liu et al. 2022) as timm has it.
#include "models/convnext.h"
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

Fields ConvNextOptions::fields() {
  using C = ConvNextOptions;
  constexpr ItemCount stages{1, 64};
  return rows_of_base<C, ImageOptions>() +
         Fields{field("patch_size", &C::patch_size, extent_range, "kernel and stride of the stem"),
                field("depths", &C::depths, count_range, stages, "blocks per stage"),
                field("dims", &C::dims, count_range, stages, "channels per stage"),
                field("kernel_size", &C::kernel_size, between(1, 15), "kernel of the depthwise convolutions"),
                field("ls_init_value", &C::layer_scale, "initial layer scale; 0: no layer scale"),
                field("norm_eps", &C::norm_eps, epsilon_range, "epsilon of the norms"),
                field("head_norm_eps", &C::head_norm_eps, epsilon_range,
                      "epsilon of the norm before the head; by default norm_eps"),
                field("drop_rate", &C::drop_rate, rate_range, fits_weights, "dropout before the head"),
                field("drop_path_rate", &C::drop_path_rate, rate_range, fits_weights,
                      "stochastic depth of the last block; it grows linearly over the blocks")};
}

void ConvNextOptions::check(HyperProblems& problems) {
  constexpr std::size_t most_stages = 8;
  if (!head_norm_eps) head_norm_eps = norm_eps;
  if (depths.size() != dims.size() || dims.size() > most_stages)
    problems.add("dims", fmt::format("`dims` names {} stages, but `depths` {}; at most {}", dims.size(), depths.size(),
                                     most_stages));
  for (const std::int64_t dim : dims)
    if (dim > largest_extent)
      problems.add("dims", fmt::format("`dims` of {}: expected at most {}", dim, largest_extent));
  for (const std::int64_t depth : depths)
    if (depth > 4096) problems.add("depths", fmt::format("`depths` of {}: expected at most 4096", depth));
  if (kernel_size % 2 == 0) problems.add("kernel_size", fmt::format("`kernel_size` {} must be odd", kernel_size));
  const std::int64_t side = std::min(image_size.height, image_size.width);
  if (dims.size() <= most_stages && side < patch_size << (dims.size() - 1))
    problems.add("image_size", fmt::format("`image_size` {} leaves the last stage no pixel: expected {} or more", side,
                                           patch_size << (dims.size() - 1)));
}

namespace {

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
      return add_branch(std::move(in), drop_path_, [&](Variable to) {
        return mlp_.forward(std::move(h), scale_ ? scale_->variable() : Variable(), std::move(to));
      });
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
/// the last stage a pixel. As a backbone gives the map of each stage.
class ConvNext final : public ImageModel {
 public:
  ConvNext(const ModelContext& context, const ConvNextOptions& options)
      : ImageModel(context, {options.image_size, options.in_channels, options.num_classes, {"head.fc"}, "stem.0"}),
        smallest_(options.patch_size << (options.dims.size() - 1)),
        stem_(*this, "stem.0", options.in_channels, options.dims[0],
              {.kernel = options.patch_size, .stride = options.patch_size, .init = normal_init()}),
        stem_norm_(*this, "stem.1", options.dims[0], options.norm_eps),
        wanted_(wanted_maps(context, options.depths.size())),
        stages_(make_stages(options)) {
    std::int64_t stride = options.patch_size;
    for (const std::int64_t channels : options.dims) {
      shapes_.push_back({channels, stride});
      stride *= 2;
    }
    if (is_part(context)) return;
    norm_.emplace(*this, "head.norm", options.dims.back(), options.head_norm_eps.value());
    dropout_.emplace(*this, "head.drop", options.drop_rate);
    head_.emplace(*this, "head.fc", options.dims.back(), options.num_classes, nn::LinearOptions{.init = normal_init()});
  }

  std::vector<MapShape> map_shapes() const override {
    std::vector<MapShape> shapes;
    for (const std::size_t number : wanted_) shapes.push_back(shapes_[number]);
    return shapes;
  }
  double map_norm_eps() const override { return 1e-6; }
  std::vector<Variable> maps(Variable x) override {
    const Scope scope(*this);
    x = stem_norm_.forward(stem_.forward(std::move(x)));
    std::vector<Variable> found;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      x = stages_[i]->forward(std::move(x));
      if (wanted_[found.size()] == i) found.push_back(x);
    }
    return found;
  }

 private:
  /// Stochastic depth grows linearly from the first block of all (0) to the last.
  std::vector<std::unique_ptr<Stage>> make_stages(const ConvNextOptions& options) {
    std::vector<std::unique_ptr<Stage>> stages;
    const std::int64_t all = std::accumulate(options.depths.begin(), options.depths.end(), std::int64_t{0});
    std::int64_t block = 0;
    const std::size_t count = wanted_.empty() ? options.depths.size() : wanted_.back() + 1;
    for (std::size_t i = 0; i < count; ++i) {
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
    return head_->forward(dropout_->forward(norm_->forward(global_avg_pool(std::move(x)))));
  }
  bool takes(std::int64_t height, std::int64_t width) const override { return std::min(height, width) >= smallest_; }

  std::int64_t smallest_;  // pixels
  nn::Conv2d stem_;
  nn::LayerNorm stem_norm_;
  std::vector<std::size_t> wanted_;  // stages whose maps the backbone gives
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<MapShape> shapes_;  // of the stages' maps
  std::optional<nn::LayerNorm> norm_;
  std::optional<nn::Dropout> dropout_;
  std::optional<nn::Linear> head_;
};

const RegisterFamily<ConvNext, ConvNextOptions> convnext("convnext");

using List = std::vector<std::int64_t>;

std::vector<HyperParameter> form(const List& depths, const List& dims) { return {{"depths", depths}, {"dims", dims}}; }

const List deep_stages{3, 3, 27, 3};

const RegisterPreset convnext_presets[] = {
    {"convnext_tiny", "convnext", form({3, 3, 9, 3}, {96, 192, 384, 768}), imagenet_images(0.95)},
    {"convnext_small", "convnext", form(deep_stages, {96, 192, 384, 768}), imagenet_images(0.95)},
    {"convnext_base", "convnext", form(deep_stages, {128, 256, 512, 1024}), imagenet_images(0.875)},
    {"convnext_large", "convnext", form(deep_stages, {192, 384, 768, 1536}), imagenet_images(0.875)},
    {"convnext_xlarge", "convnext", form(deep_stages, {256, 512, 1024, 2048}), imagenet_images(0.875)},
};

}  // namespace
}  // namespace lacuna
