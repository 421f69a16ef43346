// VGG networks (Simonyan and Zisserman 2015) as timm has them, with and without batch norm.
#include "models/image_model.h"
#include "models/registry.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/pooling/pool.h"
#include "ops/pooling/relu_max_pool.h"

#include <fmt/format.h>

#include <optional>

namespace lacuna {
namespace {

struct VggOptions : ImageOptions {
  std::vector<std::int64_t> layers = {1, 1, 2, 2, 2};
  std::vector<std::int64_t> channels = {64, 128, 256, 512, 512};
  std::int64_t hidden = 4096;
  std::int64_t head_kernel = 7;
  bool batch_norm = false;
  double drop_rate = 0;

  static Fields fields() {
    using V = VggOptions;
    constexpr ItemCount stages{1, 64};
    return rows_of_base<V, ImageOptions>() +
           Fields{field("layers", &V::layers, count_range, stages, "convolutions before each pooling"),
                  field("channels", &V::channels, count_range, stages, "channels of these convolutions"),
                  field("hidden", &V::hidden, extent_range, "width of the classifier's hidden layers"),
                  field("head_kernel", &V::head_kernel, between(1, 64), "kernel of the classifier's first layer"),
                  field("batch_norm", &V::batch_norm, "batch norm after each convolution"),
                  field("drop_rate", &V::drop_rate, rate_range, fits_weights, "dropout in the classifier")};
  }
  void check(HyperProblems& problems) const {
    if (layers.size() != channels.size() || layers.size() > 16)
      problems.add("channels", fmt::format("`channels` names {} stages, but `layers` {}; at most 16", channels.size(),
                                           layers.size()));
    for (const std::int64_t count : channels)
      if (count > largest_extent)
        problems.add("channels", fmt::format("`channels` of {}: expected at most {}", count, largest_extent));
    for (const std::int64_t count : layers)
      if (count > 4096) problems.add("layers", fmt::format("`layers` of {}: expected at most 4096", count));
    const std::int64_t side = std::min(image_size.height, image_size.width);
    if (layers.size() <= 16 && side >> layers.size() < 1)
      problems.add("image_size", fmt::format("`image_size` {} leaves the last map no pixel: expected {} or more", side,
                                             std::int64_t{1} << layers.size()));
  }
};

nn::Conv2dOptions convolution(std::int64_t out, std::int64_t kernel, std::int64_t padding) {
  return {.kernel = kernel,
          .padding = padding,
          .init = {init::kaiming_normal_fan_out(out * kernel * kernel), init::constant(0)}};
}

/// timm's VGG: convolutions of 3×3 with ReLU, stages that end with a max pool, and a classifier of convolutions. Takes
/// images of any size that leaves the last map a pixel; a map smaller than the classifier's window is stretched to it
/// by adaptive pooling.
class Vgg final : public ImageModel {
 public:
  Vgg(const ModelContext& context, const VggOptions& options)
      : ImageModel(context, {options.image_size, options.in_channels, options.num_classes, {"head.fc"}, "features.0"}),
        smallest_(std::int64_t{1} << options.layers.size()),
        head_kernel_(options.head_kernel),
        layers_(make_layers(options)),
        hidden1_(*this, "pre_logits.fc1", options.channels.back(), options.hidden,
                 convolution(options.hidden, options.head_kernel, 0)),
        dropout1_(*this, "pre_logits.drop", options.drop_rate),
        hidden2_(*this, "pre_logits.fc2", options.hidden, options.hidden, convolution(options.hidden, 1, 0)),
        dropout2_(*this, "head.drop", options.drop_rate),
        head_(*this, "head.fc", options.hidden, options.num_classes, {.init = {init::normal(.01), init::constant(0)}}) {
  }

 private:
  struct Layer {
    std::unique_ptr<nn::Conv2d> convolution;
    std::unique_ptr<nn::BatchNorm2d> norm;
    bool pools;
  };

  std::vector<Layer> make_layers(const VggOptions& options) {
    std::vector<Layer> layers;
    std::int64_t number = 0, in = options.in_channels;  // as in timm's sequence, where ReLUs and pools count
    const auto next = [&] { return fmt::format("features.{}", number++); };
    for (std::size_t stage = 0; stage < options.layers.size(); ++stage) {
      const std::int64_t out = options.channels[stage];
      for (std::int64_t i = 0; i < options.layers[stage]; ++i) {
        Layer& layer = layers.emplace_back();
        layer.convolution = std::make_unique<nn::Conv2d>(*this, next(), in, out, lacuna::convolution(out, 3, 1));
        layer.convolution->set_role(Role::block);
        if (options.batch_norm) {
          layer.norm = std::make_unique<nn::BatchNorm2d>(*this, next(), out);
          layer.norm->set_follows_block();
        }
        layer.pools = i + 1 == options.layers[stage];
        number += layer.pools ? 2 : 1;
        in = out;
      }
    }
    return layers;
  }

  Variable classify(Variable x) override {
    const Scope scope(*this);
    for (Layer& layer : layers_) {
      x = layer.convolution->forward(std::move(x));
      if (layer.pools) {
        if (layer.norm) x = layer.norm->forward(std::move(x));
        x = apply(ReluMaxPool2d{.height = x.shape()[1], .width = x.shape()[2]}, std::move(x));
      } else {
        x = layer.norm ? layer.norm->forward_relu(std::move(x)) : relu(std::move(x));
      }
    }
    const std::int64_t height = x.shape()[1], width = x.shape()[2];
    if (std::min(height, width) < head_kernel_)
      x = apply(AdaptiveAvgPool2d{.out_height = std::max(height, head_kernel_),
                                  .out_width = std::max(width, head_kernel_),
                                  .height = height,
                                  .width = width},
                std::move(x));
    x = dropout1_.forward(relu(hidden1_.forward(std::move(x))));
    x = global_avg_pool(relu(hidden2_.forward(std::move(x))));  // [N, hidden]
    return head_.forward(dropout2_.forward(std::move(x)));
  }
  bool takes(std::int64_t height, std::int64_t width) const override { return std::min(height, width) >= smallest_; }

  std::int64_t smallest_;     // pixels
  std::int64_t head_kernel_;  // places
  std::vector<Layer> layers_;
  nn::Conv2d hidden1_;
  nn::Dropout dropout1_;
  nn::Conv2d hidden2_;
  nn::Dropout dropout2_;
  nn::Linear head_;
};

const RegisterFamily<Vgg, VggOptions> vgg("vgg");

std::vector<HyperParameter> form(const std::vector<std::int64_t>& layers, bool batch_norm) {
  return {{"layers", layers}, {"batch_norm", batch_norm}};
}

const ImagePreparation images = imagenet_images(0.875, "bilinear");

const RegisterPreset vgg_presets[] = {
    {"vgg11", "vgg", form({1, 1, 2, 2, 2}, false), images}, {"vgg11_bn", "vgg", form({1, 1, 2, 2, 2}, true), images},
    {"vgg13", "vgg", form({2, 2, 2, 2, 2}, false), images}, {"vgg13_bn", "vgg", form({2, 2, 2, 2, 2}, true), images},
    {"vgg16", "vgg", form({2, 2, 3, 3, 3}, false), images}, {"vgg16_bn", "vgg", form({2, 2, 3, 3, 3}, true), images},
    {"vgg19", "vgg", form({2, 2, 4, 4, 4}, false), images}, {"vgg19_bn", "vgg", form({2, 2, 4, 4, 4}, true), images},
};

}  // namespace
}  // namespace lacuna
