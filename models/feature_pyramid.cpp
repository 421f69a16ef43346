#include "models/feature_pyramid.h"

#include "nn/functional.h"
#include "nn/init.h"
#include "ops/shapes/resize.h"

#include <fmt/format.h>

#include <cmath>

namespace lacuna {
namespace {

Variable nearest_as(Variable x, const Shape& like) {
  const Shape from = x.shape();
  return apply(Resize{.resampling = Resampling::nearest,
                      .height = from[1],
                      .width = from[2],
                      .out_height = like[1],
                      .out_width = like[2]},
               std::move(x));
}

/// Glorot and Bengio 2010.
Init xavier(std::int64_t fan_in, std::int64_t fan_out) {
  return init::uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}
/// Uniform with variance 1 / fan_in: torch's kaiming_uniform_ with a = 1.
Init kaiming_linear(std::int64_t fan_in, std::int64_t /*fan_out*/) {
  return init::uniform(std::sqrt(3.0 / static_cast<double>(fan_in)));
}

std::unique_ptr<nn::Conv2d> make_convolution(Module& parent, std::string_view name, std::size_t number,
                                             const PyramidForm& form, std::int64_t in, std::int64_t out,
                                             std::int64_t kernel) {
  const std::int64_t window = kernel * kernel;
  return std::make_unique<nn::Conv2d>(
      parent, fmt::format(fmt::runtime(name), number), in, out,
      nn::Conv2dOptions{.kernel = kernel,
                        .padding = kernel / 2,
                        .init = {form.weight(window * in, window * out), init::constant(0)}});
}

}  // namespace

const PyramidForm torchvision_pyramid{"inner_blocks.{}.0", "layer_blocks.{}.0", kaiming_linear},
    mmseg_pyramid{"lateral_convs.{}.conv", "fpn_convs.{}.conv", xavier};

FeaturePyramid::FeaturePyramid(Module& parent, std::string_view name, const PyramidForm& form,
                               const std::vector<MapShape>& maps, std::int64_t channels)
    : Module(parent, name) {
  for (std::size_t i = 0; i < maps.size(); ++i) {
    inner_.push_back(make_convolution(*this, form.inner, i, form, maps[i].channels, channels, 1));
    outer_.push_back(make_convolution(*this, form.outer, i, form, channels, channels, 3));
  }
}

std::vector<Variable> FeaturePyramid::forward(std::vector<Variable> maps) const {
  const Scope scope(*this);
  Variable coarser;
  for (std::size_t i = maps.size(); i-- > 0;) {
    Variable sum = inner_[i]->forward(std::move(maps[i]));
    if (coarser.defined()) {
      const Shape shape = sum.shape();
      sum = std::move(sum) + nearest_as(std::move(coarser), shape);
    }
    coarser = sum;
    maps[i] = outer_[i]->forward(std::move(sum));
  }
  return maps;
}

}  // namespace lacuna
