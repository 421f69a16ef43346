// A model as a part of another one: it has no head and gives maps.
#pragma once

#include "models/hyper_parameters.h"
#include "models/image_model.h"
#include "nn/norm.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// A model and its hyper-parameters: `resnet50`, or `{name: resnet50, output_stride: 8}`.
struct BackboneOptions {
  std::string name{};
  std::vector<HyperParameter> values{};

  /// As a preset's value.
  Tree tree() const;
  /// Gives a hyper-parameter of the model a value unless it has one. A model without this hyper-parameter is left
  /// alone.
  void set_default(const std::string& key, Tree value);
};
template <>
const Codec& codec_of<BackboneOptions>();

struct BackboneForm {
  ImageSize image_size;
  std::int64_t in_channels = 3;
  std::vector<std::int64_t> maps{};  // that it gives, by number in ascending order; negative ones count from the end
  bool map_norm = false;  // each map goes through a norm: a ViT's own, or a new LayerNorm `norm0`, `norm1`, …
  std::optional<double> fixed_norms{};  // batch norms are never trained, and have this epsilon; nothing: they are
};

/// A child of `parent` whose parameters have the model's names below `name`.
class Backbone {
 public:
  Backbone(Module& parent, std::string_view name, const BackboneOptions& options, const BackboneForm& form);

  const ImageModel& model() const { return *model_; }
  std::vector<MapShape> shapes() const { return model_->map_shapes(); }
  /// The names of the whole model's tensors that the backbone lacks, such as those of its head.
  std::vector<std::string> left_out() const;
  /// Maps [N, h, w, channels] of images [N, H, W, C] of the context's type.
  std::vector<Variable> maps(Variable images) const;

  /// Adds the problems of options and form under `key`; returns the shapes of the maps, none if there are any.
  static std::vector<MapShape> check(const BackboneOptions& options, const BackboneForm& form, std::string_view key,
                                     HyperProblems& problems);

 private:
  BackboneOptions options_;
  std::unique_ptr<ImageModel> model_;
  std::vector<std::unique_ptr<nn::LayerNorm>> norms_;
};

}  // namespace lacuna
