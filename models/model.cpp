#include "models/model.h"

namespace lacuna {

Variable Model::forward(Variable images) {
  const Shape& shape = images.shape();
  expect(shape.rank() == 4 && shape[3] == in_channels() && takes(shape[1], shape[2]),
         "the model expects images [N, {0}, {0}, {1}] (channels last), got {2}", image_size(), in_channels(), shape);
  if (images.dtype() != context().dtype) {
    expect(!images.requires_grad(), "images that want a gradient must have the model's type: expected {}, got {}",
           name_of(context().dtype), name_of(images.dtype()));
    images = Variable(images.tensor().to(context().dtype), false, images.path());
  }
  return classify(std::move(images));
}

}  // namespace lacuna
