// Convolutions that keep the image's size, one after another: the network of the selective differentiation paper's
// first figure (Bhatia et al. 2024), where memory depends on which of them are trained.
#include "models/image_model.h"
#include "models/registry.h"
#include "nn/conv.h"
#include "nn/functional.h"
#include "nn/linear.h"

#include <fmt/format.h>

namespace lacuna {
namespace {

struct ConvStackOptions : ImageOptions {
  std::int64_t width = 8, depth = 10, kernel = 3;

  ConvStackOptions() : ImageOptions{.image_size = 256, .num_classes = 10} {}
  static Fields fields() {
    using C = ConvStackOptions;
    return rows_of_base<C, ImageOptions>() +
           Fields{field("width", &C::width, extent_range, "channels"),
                  field("depth", &C::depth, between(1, 4096), "number of convolutions"),
                  field("kernel", &C::kernel, between(1, 63), "kernel of the convolutions")};
  }
  void check(HyperProblems& problems) const {
    if (kernel % 2 == 0)
      problems.add("kernel", fmt::format("`kernel` {} changes the image's size: it must be odd", kernel));
  }
};

/// `layers.0` to `layers.<depth − 1>`, all with `width` channels; then the mean over the image and a classifier `fc`.
class ConvStack final : public ImageModel {
 public:
  ConvStack(const ModelContext& context, const ConvStackOptions& options)
      : ImageModel(context, {options.image_size, options.in_channels, options.num_classes, {"fc"}, "layers.0"}),
        layers_(make_layers(options)),
        classifier_(*this, "fc", options.width, options.num_classes) {}

 private:
  std::vector<std::unique_ptr<nn::Conv2d>> make_layers(const ConvStackOptions& options) {
    std::vector<std::unique_ptr<nn::Conv2d>> layers;
    for (std::int64_t i = 0; i < options.depth; ++i) {
      layers.push_back(std::make_unique<nn::Conv2d>(
          *this, fmt::format("layers.{}", i), i == 0 ? options.in_channels : options.width, options.width,
          nn::Conv2dOptions{.kernel = options.kernel, .padding = options.kernel / 2, .bias = false}));
      layers.back()->set_role(Role::block);
    }
    return layers;
  }
  Variable classify(Variable x) override {
    const Scope scope(*this);
    for (const std::unique_ptr<nn::Conv2d>& layer : layers_) x = layer->forward(std::move(x));
    return classifier_.forward(global_avg_pool(std::move(x)));
  }
  bool takes(std::int64_t, std::int64_t) const override { return true; }

  std::vector<std::unique_ptr<nn::Conv2d>> layers_;
  nn::Linear classifier_;
};

const RegisterFamily<ConvStack, ConvStackOptions> conv_stack("conv_stack");

}  // namespace
}  // namespace lacuna
