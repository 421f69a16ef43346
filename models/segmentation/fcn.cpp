// Fully convolutional networks (Long et al. 2015) and DeepLabv3 (Chen et al. 2017) on dilated ResNets, as torchvision
// has them: the same names, shapes and initial distributions.
#include "models/registry.h"
#include "models/segmentation/segmenter.h"

#include <fmt/format.h>

#include <optional>

namespace lacuna {
namespace {

struct FcnOptions : SegmenterOptions {
  bool aux = true;

  FcnOptions() { backbone.name = "resnet50"; }
  static Fields fields() {
    return rows_of_base<FcnOptions, SegmenterOptions>() +
           Fields{field("aux", &FcnOptions::aux, fits_weights,
                        "a second head on the map before the last, with a loss of its own in training")};
  }
  void check(HyperProblems& problems) {
    backbone.set_default("output_stride", 8);  // as torchvision
    check_backbone(aux ? 2 : 1, problems);
  }
};

/// 3×3 to a quarter of the channels, norm, ReLU, dropout and 1×1, numbered as torchvision's FCNHead.
class FcnHead final : public Module {
 public:
  FcnHead(Module& parent, std::string_view name, std::int64_t in, std::int64_t classes, double dropout)
      : Module(parent, name),
        inner_(*this, {"0", "1"}, in, in / 4, 3),
        dropout_(*this, "3", dropout),
        classifier_(*this, "4", in / 4, classes, {}) {}
  Variable forward(Variable x) {
    const Scope scope(*this);
    return classifier_.forward(dropout_.forward(inner_.forward(std::move(x))));
  }

 private:
  ConvNormRelu inner_;
  nn::Dropout dropout_;
  nn::Conv2d classifier_;
};

/// A decoder `classifier` on the last map, and an auxiliary head on the one before.
class WithAuxHead : public Segmenter {
 protected:
  WithAuxHead(const ModelContext& context, const FcnOptions& options)
      : Segmenter(context, options, {"classifier.4", "aux_classifier", "aux_classifier.4", options.aux}) {}
  void add_aux(const FcnOptions& options) {
    const std::vector<MapShape> maps = shapes();
    if (options.aux)
      aux_.emplace(*this, "aux_classifier", maps[maps.size() - 2].channels, options.num_classes, options.dropout);
  }

 private:
  Variable decode_aux(const std::vector<Variable>& maps) final {
    return aux_ ? aux_->forward(maps[maps.size() - 2]) : Variable();
  }

  std::optional<FcnHead> aux_;
};

class Fcn final : public WithAuxHead {
 public:
  Fcn(const ModelContext& context, const FcnOptions& options)
      : WithAuxHead(context, options),
        head_(*this, "classifier", shapes().back().channels, options.num_classes, options.dropout) {
    add_aux(options);
  }

 private:
  Variable decode(std::vector<Variable> maps) override {
    Variable last = std::move(maps.back());
    maps.clear();
    return head_.forward(std::move(last));
  }

  FcnHead head_;
};

struct DeepLabOptions : FcnOptions {
  std::vector<std::int64_t> atrous_rates{12, 24, 36};
  std::int64_t head_channels = 256;
  double aspp_dropout = 0.5;

  static Fields fields() {
    constexpr ItemCount any{1, 8};
    return rows_of_base<DeepLabOptions, FcnOptions>() +
           Fields{field("atrous_rates", &DeepLabOptions::atrous_rates, extent_range, any,
                        "dilations of the 3×3 convolutions of the pyramid"),
                  field("head_channels", &DeepLabOptions::head_channels, extent_range, "channels of the decoder"),
                  field("aspp_dropout", &DeepLabOptions::aspp_dropout, rate_range, fits_weights,
                        "dropout behind the pyramid; `dropout` is the auxiliary head's")};
  }
};

/// Atrous spatial pyramid pooling: 1×1, dilated 3×3 and the mean over the image, side by side.
class Pyramid final : public Module {
 public:
  Pyramid(Module& parent, std::string_view name, std::int64_t in, const DeepLabOptions& options)
      : Module(parent, name) {
    const std::int64_t out = options.head_channels;
    const auto add = [&](std::int64_t first, std::int64_t kernel, std::int64_t dilation) {
      const std::size_t i = branches_.size();
      branches_.push_back(std::make_unique<ConvNormRelu>(
          *this, ConvNormRelu::Names{fmt::format("convs.{}.{}", i, first), fmt::format("convs.{}.{}", i, first + 1)},
          in, out, kernel, dilation));
    };
    add(0, 1, 1);
    for (const std::int64_t rate : options.atrous_rates) add(0, 3, rate);
    add(1, 1, 1);  // behind the pooling, which is number 0
    project_.emplace(*this, ConvNormRelu::Names{"project.0", "project.1"},
                     out * static_cast<std::int64_t>(branches_.size()), out);
    dropout_.emplace(*this, "project.3", options.aspp_dropout);
  }

  Variable forward(Variable x) {
    const Scope scope(*this);
    const Shape shape = x.shape();
    std::vector<Variable> all;
    for (std::size_t i = 0; i + 1 < branches_.size(); ++i) all.push_back(branches_[i]->forward(x));
    all.push_back(resized_as(branches_.back()->forward(mean_pixel(std::move(x))), shape));
    return dropout_->forward(project_->forward(concat_channels(std::move(all))));
  }

 private:
  std::vector<std::unique_ptr<ConvNormRelu>> branches_;
  std::optional<ConvNormRelu> project_;
  std::optional<nn::Dropout> dropout_;
};

class DeepLabV3 final : public WithAuxHead {
 public:
  DeepLabV3(const ModelContext& context, const DeepLabOptions& options)
      : WithAuxHead(context, options),
        pyramid_(*this, "classifier.0", shapes().back().channels, options),
        inner_(*this, {"classifier.1", "classifier.2"}, options.head_channels, options.head_channels, 3),
        classifier_(*this, "classifier.4", options.head_channels, options.num_classes, {}) {
    add_aux(options);
  }

 private:
  Variable decode(std::vector<Variable> maps) override {
    Variable last = std::move(maps.back());
    maps.clear();
    return classifier_.forward(inner_.forward(pyramid_.forward(std::move(last))));
  }

  Pyramid pyramid_;
  ConvNormRelu inner_;
  nn::Conv2d classifier_;
};

const RegisterFamily<Fcn, FcnOptions> fcn("fcn", "shape_masks", "", "segmentation");
const RegisterFamily<DeepLabV3, DeepLabOptions> deeplab("deeplabv3", "shape_masks", "", "segmentation");

std::vector<HyperParameter> dilated(const char* backbone) {
  return {{"backbone", backbone}, {"num_classes", 21}, {"image_size", 480}};
}

const RegisterPreset fcn_presets[] = {
    {"fcn_resnet50", "fcn", dilated("resnet50")},
    {"fcn_resnet101", "fcn", dilated("resnet101")},
    {"deeplabv3_resnet50", "deeplabv3", dilated("resnet50")},
    {"deeplabv3_resnet101", "deeplabv3", dilated("resnet101")},
};

}  // namespace
}  // namespace lacuna
