// Pyramid vision transformers, version 2 (Wang et al. 2022), as timm has them: overlapping patches and no positions.
// With `norm_eps` 1e-5 the encoder of SegFormer (Xie et al. 2021).
#include "models/image_model.h"
#include "models/pvt/reduced_attention.h"
#include "models/registry.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/region.h"

#include <cmath>

namespace lacuna {
namespace {

struct PvtV2Options : PvtOptions {
  bool linear = false;
  static Fields fields() {
    return rows_of_base<PvtV2Options, PvtOptions>() +
           Fields{field("linear", &PvtV2Options::linear,
                        "keys and values are of 7×7 means of the map, whatever its size (PVTv2-Li)")};
  }
  void check(HyperProblems& problems) const { PvtOptions::check(problems, linear); }
};

/// A convolution whose windows overlap, and a norm.
class OverlappingPatches final : public Module {
 public:
  OverlappingPatches(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, std::int64_t kernel,
                     std::int64_t stride)
      : Module(parent, name),
        convolution_(
            *this, "proj", in, out,
            {.kernel = kernel,
             .stride = stride,
             .padding = kernel / 2,
             .init = {init::normal(std::sqrt(2.0 / static_cast<double>(out * kernel * kernel))), init::constant(0)}}),
        norm_(*this, "norm", out, 1e-5) {}
  Variable forward(Variable x) const {
    const Scope scope(*this);
    return norm_.forward(convolution_.forward(std::move(x)));
  }

 private:
  nn::Conv2d convolution_;
  nn::LayerNorm norm_;
};

/// timm's PyramidVisionTransformerV2: the same names, shapes and initial distributions. Takes images of any size. As a
/// backbone gives the map of each stage, behind its norm.
class PvtV2 final : public ImageModel {
 public:
  PvtV2(const ModelContext& context, const PvtV2Options& options)
      : ImageModel(context,
                   {options.image_size, options.in_channels, options.num_classes, {"head"}, "patch_embed.proj"}),
        wanted_(wanted_maps(context, options.depths.size())),
        channels_(options.embed_dims) {
    const std::size_t count = wanted_.empty() ? options.depths.size() : wanted_.back() + 1;
    for (std::size_t i = 0; i < count; ++i) stages_.push_back(std::make_unique<Stage>(*this, options, i));
    if (is_part(context)) return;
    dropout_.emplace(*this, "head_drop", options.drop_rate);
    head_.emplace(*this, "head", options.embed_dims.back(), options.num_classes,
                  nn::LinearOptions{.init = {init::truncated_normal(.02), init::constant(0)}});
  }

  std::vector<MapShape> map_shapes() const override {
    std::vector<MapShape> shapes;
    for (const std::size_t i : wanted_) shapes.push_back({channels_[i], std::int64_t{4} << i});
    return shapes;
  }
  std::vector<Variable> maps(Variable images) override {
    const Scope scope(*this);
    std::vector<Variable> found;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      images = stages_[i]->forward(std::move(images));
      if (wanted_[found.size()] == i) found.push_back(images);
    }
    return found;
  }
  bool takes(std::int64_t, std::int64_t) const override { return true; }

 private:
  struct Stage {
    Stage(Module& model, const PvtV2Options& options, std::size_t i)
        : patches(model, i == 0 ? "patch_embed" : fmt::format("stages.{}.downsample", i),
                  i == 0 ? options.in_channels : options.embed_dims[i - 1], options.embed_dims[i], i == 0 ? 7 : 3,
                  i == 0 ? 4 : 2) {
      for (std::int64_t k = 0; k < options.depths[i]; ++k)
        blocks.push_back(
            std::make_unique<PvtBlock>(model, fmt::format("stages.{}.blocks.{}", i, k), options,
                                       PvtBlockPlace{.stage = i, .number = k, .pools = options.linear, .mixes = true}));
      norm.emplace(model, fmt::format("stages.{}.norm", i), options.embed_dims[i], options.norm_eps);
      norm->set_follows_block();
    }
    /// x [N, H, W, C] to the stage's map.
    Variable forward(Variable x) const {
      x = patches.forward(std::move(x));
      const Shape map = x.shape();
      x = run_sequence(
          blocks, x.reshape({map[0], map[1] * map[2], map[3]}),
          [&map](const PvtBlock& block, Variable in) { return block.forward(std::move(in), map[1], map[2]); });
      return norm->forward(std::move(x)).reshape(map);
    }
    OverlappingPatches patches;
    std::vector<std::unique_ptr<PvtBlock>> blocks;
    std::optional<nn::LayerNorm> norm;
  };

  Variable classify(Variable x) override {
    const Scope scope(*this);
    for (const std::unique_ptr<Stage>& stage : stages_) x = stage->forward(std::move(x));
    return head_->forward(dropout_->forward(global_avg_pool(std::move(x))));
  }

  std::vector<std::size_t> wanted_;  // stages whose maps the backbone gives
  std::vector<std::int64_t> channels_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::optional<nn::Dropout> dropout_;
  std::optional<nn::Linear> head_;
};

const RegisterFamily<PvtV2, PvtV2Options> pvt_v2("pvt_v2");

using List = std::vector<std::int64_t>;

std::vector<HyperParameter> v2(const List& depths) {
  return {{"depths", depths}, {"mlp_ratios", std::vector<double>{8, 8, 4, 4}}};
}

const RegisterPreset pvt_v2_presets[] = {
    {"pvt_v2_b0",
     "pvt_v2",
     {{"embed_dims", List{32, 64, 160, 256}}, {"depths", List{2, 2, 2, 2}}},
     imagenet_images(0.9)},
    {"pvt_v2_b1", "pvt_v2", v2({2, 2, 2, 2}), imagenet_images(0.9)},
    {"pvt_v2_b2", "pvt_v2", v2({3, 4, 6, 3}), imagenet_images(0.9)},
    {"pvt_v2_b3", "pvt_v2", v2({3, 4, 18, 3}), imagenet_images(0.9)},
    {"pvt_v2_b4", "pvt_v2", v2({3, 8, 27, 3}), imagenet_images(0.9)},
    {"pvt_v2_b5",
     "pvt_v2",
     {{"depths", List{3, 6, 40, 3}}, {"mlp_ratios", std::vector<double>{4, 4, 4, 4}}},
     imagenet_images(0.9)},
    {"pvt_v2_b2_li", "pvt_v2", {{"depths", List{3, 4, 6, 3}}, {"linear", true}}, imagenet_images(0.9)},
};

}  // namespace
}  // namespace lacuna
