// Semantic FPN (Kirillov et al. 2019): a feature pyramid whose maps are brought to the finest one and added up.
// mmsegmentation's FPN and FPNHead: the same names, shapes and initial distributions.
#include "models/feature_pyramid.h"
#include "models/registry.h"
#include "models/segmentation/segmenter.h"
#include "nn/functional.h"
#include "nn/init.h"

#include <fmt/format.h>

#include <bit>

namespace lacuna {
namespace {

struct SemanticFpnOptions : SegmenterOptions {
  std::int64_t fpn_channels = 256, head_channels = 128;

  SemanticFpnOptions() { backbone.name = "resnet50"; }
  static Fields fields() {
    using S = SemanticFpnOptions;
    return rows_of_base<S, SegmenterOptions>() +
           Fields{field("fpn_channels", &S::fpn_channels, extent_range, "channels of the pyramid"),
                  field("head_channels", &S::head_channels, extent_range, "channels of the head")};
  }
  void check(HyperProblems& problems) {
    const std::vector<MapShape> shapes = check_backbone(std::max<std::int64_t>(4, std::ssize(maps)), problems);
    for (std::size_t i = 1; i < shapes.size(); ++i)
      if (shapes[i].stride < shapes[i - 1].stride || shapes[i].stride % shapes[0].stride != 0 ||
          !std::has_single_bit(static_cast<std::uint64_t>(shapes[i].stride / shapes[0].stride)))
        problems.add("maps", fmt::format("`maps` of strides {} and {}: the pyramid needs coarser ones by powers of 2",
                                         shapes[i - 1].stride, shapes[i].stride));
  }
};

/// Convolutions with norms and ReLUs; each but those of the finest map doubles the resolution.
class Scale final : public Module {
 public:
  Scale(Module& parent, std::string_view name, std::int64_t in, std::int64_t channels, std::int64_t doublings)
      : Module(parent, name), doublings_(doublings) {
    for (std::int64_t i = 0; i < std::max<std::int64_t>(doublings, 1); ++i)
      layers_.push_back(std::make_unique<ConvNormRelu>(
          *this, ConvNormRelu::Names{fmt::format("{}.conv", 2 * i), fmt::format("{}.bn", 2 * i)},
          i == 0 ? in : channels, channels, 3));
  }

  Variable forward(Variable x) {
    const Scope scope(*this);
    for (const std::unique_ptr<ConvNormRelu>& layer : layers_) {
      x = layer->forward(std::move(x));
      const Shape shape = x.shape();
      if (doublings_ > 0) x = resized_as(std::move(x), {shape[0], 2 * shape[1], 2 * shape[2], shape[3]});
    }
    return x;
  }

 private:
  std::int64_t doublings_;
  std::vector<std::unique_ptr<ConvNormRelu>> layers_;
};

class SemanticFpn final : public Segmenter {
 public:
  SemanticFpn(const ModelContext& context, const SemanticFpnOptions& options)
      : Segmenter(context, options, {"decode_head.conv_seg"}),
        neck_(*this, "neck", mmseg_pyramid, shapes(), options.fpn_channels),
        dropout_(*this, "decode_head.dropout", options.dropout) {
    for (const MapShape& map : shapes()) {
      const auto ratio = static_cast<std::uint64_t>(map.stride / shapes().front().stride);
      scales_.push_back(std::make_unique<Scale>(*this, fmt::format("decode_head.scale_heads.{}", scales_.size()),
                                                options.fpn_channels, options.head_channels, std::countr_zero(ratio)));
    }
    classifier_ =
        std::make_unique<nn::Conv2d>(*this, "decode_head.conv_seg", options.head_channels, options.num_classes,
                                     nn::Conv2dOptions{.init = {init::normal(0.01), init::constant(0)}});
  }

 private:
  Variable decode(std::vector<Variable> maps) override {
    maps = neck_.forward(std::move(maps));
    Variable sum = scales_.front()->forward(std::move(maps.front()));
    const Shape finest = sum.shape();
    for (std::size_t i = 1; i < maps.size(); ++i)
      sum = std::move(sum) + resized_as(scales_[i]->forward(std::move(maps[i])), finest);
    return classifier_->forward(dropout_.forward(std::move(sum)));
  }

  FeaturePyramid neck_;
  std::vector<std::unique_ptr<Scale>> scales_;
  nn::ChannelDropout dropout_;
  std::unique_ptr<nn::Conv2d> classifier_;
};

const RegisterFamily<SemanticFpn, SemanticFpnOptions> semantic_fpn("semantic_fpn", "shape_masks", "", "segmentation");

std::vector<HyperParameter> pyramid_on(const char* backbone, bool map_norm = false) {
  return {{"backbone", backbone}, {"map_norm", map_norm}, {"num_classes", 150}, {"image_size", 512}};
}

const RegisterPreset semantic_fpn_presets[] = {
    {"semantic_fpn_resnet50", "semantic_fpn", pyramid_on("resnet50")},
    {"semantic_fpn_swin_tiny", "semantic_fpn", pyramid_on("swin_tiny_patch4_window7_224", true)},
};

}  // namespace
}  // namespace lacuna
