// Image classifiers.
#pragma once

#include "models/model.h"

namespace lacuna {

struct ImageModelSignature {
  std::int64_t image_size = 224;  // height and width in pixels
  std::int64_t in_channels = 3;
  std::int64_t num_classes = 1000;
  std::string head;  // path of the classifier
};

/// Input `images` [N, image_size, image_size, in_channels] of any floating type; output `logits` [N, num_classes] in
/// the context's type. Images of another type are converted, unless they gather a gradient.
class ImageModel : public Model {
 public:
  ImageModel(const ModelContext& context, const ImageModelSignature& signature);

  std::int64_t image_size() const { return image_shape()[0]; }
  std::int64_t in_channels() const { return image_shape()[2]; }

  Outputs forward(Inputs inputs) final;

 private:
  const Shape& image_shape() const { return inputs().front().shape; }
  /// `images` has the right shape and type.
  virtual Variable classify(Variable images) = 0;
  /// Whether the model also takes images of this height and width.
  virtual bool takes(std::int64_t height, std::int64_t width) const {
    return height == image_size() && width == image_size();
  }
};

}  // namespace lacuna
