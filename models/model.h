// What all image classifiers have in common.
#pragma once

#include "nn/module.h"

#include <cstdint>
#include <string>

namespace lacuna {

/// What goes into a model and what comes out.
struct ModelSignature {
  std::int64_t image_size = 224;  // height and width in pixels
  std::int64_t in_channels = 3;
  std::int64_t num_classes = 1000;
  std::string head;  // path of the classifier, whose shape depends on the number of classes
};

class Model : public Module {
 public:
  Model(const ModelContext& context, ModelSignature signature) : Module(context), signature_(std::move(signature)) {}

  std::int64_t image_size() const { return signature_.image_size; }
  std::int64_t in_channels() const { return signature_.in_channels; }
  std::int64_t num_classes() const { return signature_.num_classes; }
  const std::string& head() const { return signature_.head; }

  /// Logits [N, num_classes] of images [N, image_size, image_size, in_channels], in the context's type. Images of
  /// another floating type are converted, unless they want a gradient themselves.
  Variable forward(Variable images);

 private:
  /// `images` has the right shape and type.
  virtual Variable classify(Variable images) = 0;
  /// Whether the model also takes images of this height and width.
  virtual bool takes(std::int64_t height, std::int64_t width) const {
    return height == image_size() && width == image_size();
  }

  ModelSignature signature_;
};

}  // namespace lacuna
