// Image classifiers.
#pragma once

#include "models/hyper_parameters.h"
#include "models/model.h"

namespace lacuna {

/// A map of features that a model gives as a backbone: [N, ⌈height / stride⌉, ⌈width / stride⌉, channels].
struct MapShape {
  std::int64_t channels, stride;
};

/// The numbers of the maps that a backbone gives (PartOf::maps), of `count` that the model has; none for a model of its
/// own. Rejects numbers that do not ascend or that it has not.
std::vector<std::size_t> wanted_maps(const ModelContext& context, std::size_t count);

struct ImageModelSignature {
  ImageSize image_size;
  std::int64_t in_channels = 3;
  std::int64_t num_classes = 1000;
  std::vector<std::string> heads;                            // paths of the classifiers
  std::string first_convolution{};                           // path of the layer that reads the images
  std::vector<std::string> other_heads{}, optional_parts{};  // as ModelSignature has them
};

/// Input `images` [N, height, width, in_channels] of any floating type; output `logits` [N, num_classes] in
/// the context's type. Images of another type are converted, unless they gather a gradient; u8 as
/// `image_scale` and `image_mixes` say (data/batch.h).
class ImageModel : public Model {
 public:
  ImageModel(const ModelContext& context, const ImageModelSignature& signature);

  ImageSize image_size() const { return {image_shape()[0], image_shape()[1]}; }
  std::int64_t in_channels() const { return image_shape()[2]; }

  /// Path of the convolution that reads the images.
  const std::string& first_convolution() const { return first_convolution_; }

  /// Its weights for images of other channels, as timm's adapt_input_conv: for grey images the sum over three channels,
  /// for n channels the three repeated and scaled by 3 / n.
  Tensor adapt(const Parameter& parameter, const Tensor& stored, Library library) const override;

  Outputs forward(Inputs inputs) final;

  /// The maps that the model gives as a backbone, from the first layers on; empty: the family gives none.
  virtual std::vector<MapShape> map_shapes() const { return {}; }
  /// These maps; `images` has the right shape and the context's type.
  virtual std::vector<Variable> maps(Variable images);
  /// Whether each of them went through a norm of the model's own.
  virtual bool norms_maps() const { return false; }
  /// Names that weights of the backbone alone have beside it, as those of a classifier's head; empty: not known.
  virtual std::vector<std::string> beside_backbone() const { return {}; }

  /// The epsilon of norms that a backbone's maps get from outside.
  virtual double map_norm_eps() const { return 1e-5; }
  /// Whether the model also takes images of this height and width.
  virtual bool takes(std::int64_t height, std::int64_t width) const { return ImageSize{height, width} == image_size(); }

 protected:
  /// Whether the model is a backbone, which has no head.
  static bool is_part(const ModelContext& context) { return context.part_of.parent != nullptr; }
  /// All outputs; a model with one output returns `logits`.
  virtual Outputs run(Variable images);
  /// The same for a model that reads other inputs, too.
  virtual Outputs run_with(Variable images, Inputs /*others*/) { return run(std::move(images)); }

 private:
  const Shape& image_shape() const { return inputs().front().shape; }
  /// The logits; `images` has the right shape and type.
  virtual Variable classify(Variable images) = 0;

  std::string first_convolution_;
};

}  // namespace lacuna
