#include "models/image_model.h"

namespace lacuna {

ImageModel::ImageModel(const ModelContext& context, const ImageModelSignature& signature)
    : Model(context,
            {.inputs = {{.name = "images",
                         .dtype = DType::f32,
                         .shape = {signature.image_size.height, signature.image_size.width, signature.in_channels}}},
             .num_classes = signature.num_classes,
             .heads = signature.heads}) {}

Outputs ImageModel::forward(Inputs inputs) {
  Variable images = inputs.take("images");
  const Shape& shape = images.shape();
  expect(shape.rank() == 4 && shape[3] == in_channels() && takes(shape[1], shape[2]),
         "the model expects images [N, {}, {}, {}] (channels last), got {}", image_size().height, image_size().width,
         in_channels(), shape);
  if (images.dtype() != context().dtype) {
    expect(!images.requires_grad(), "images that gather a gradient must have the model's type {}, got {}",
           name_of(context().dtype), name_of(images.dtype()));
    images = Variable(images.tensor().to(context().dtype), false, images.path());
  }
  return run(std::move(images));
}

Outputs ImageModel::run(Variable images) {
  Outputs outputs;
  outputs.set("logits", classify(std::move(images)));
  return outputs;
}

}  // namespace lacuna
