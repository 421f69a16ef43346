#include "models/image_model.h"

#include "ops/pixels/pixels_kernels.h"

#include <algorithm>

namespace lacuna {

ImageModel::ImageModel(const ModelContext& context, const ImageModelSignature& signature)
    : Model(context,
            {.inputs = {{.name = "images",
                         .kind = FieldKind::pixels,
                         .dtype = DType::f32,
                         .shape = {signature.image_size.height, signature.image_size.width, signature.in_channels}}},
             .num_classes = signature.num_classes,
             .heads = is_part(context) ? std::vector<std::string>() : signature.heads,
             .other_heads = signature.other_heads,
             .optional_parts = signature.optional_parts}),
      first_convolution_(signature.first_convolution) {}

Tensor ImageModel::adapt(const Parameter& parameter, const Tensor& stored, Library) const {
  constexpr std::int64_t colours = 3;
  const Shape &from = stored.shape(), &to = parameter.shape();  // [out, channels, height, width]
  const std::string& own = path();
  if (parameter.path() != (own.empty() ? "" : own + ".") + first_convolution_ + ".weight" || from.rank() != 4 ||
      from[1] != colours || !(Shape{from[0], to[1], from[2], from[3]} == to))
    return {};
  if (stored.device() == Device::meta) return Tensor::empty(to, DType::f32, Device::meta);
  const std::vector<double> values = stored.to_vector();
  const std::int64_t window = from[2] * from[3], channels = to[1];
  std::vector<double> out(static_cast<std::size_t>(to.count()));
  for (std::int64_t o = 0; o < from[0]; ++o)
    for (std::int64_t c = 0; c < std::max(channels, colours); ++c)
      for (std::int64_t i = 0; i < window; ++i) {
        const double value = values[static_cast<std::size_t>((o * colours + c % colours) * window + i)];
        out[static_cast<std::size_t>((o * channels + c % channels) * window + i)] +=
            channels == 1  ? value
            : c < channels ? value * colours / static_cast<double>(channels)
                           : 0;
      }
  return Tensor::from(std::span<const double>(out), to, DType::f32, stored.device());
}

namespace {

/// Images u8 [N, H, W, C] of a batch as numbers.
Tensor normalized(const Tensor& images, Inputs& inputs, DType dtype) {
  const Device device = images.device();
  const Tensor scale = inputs.take("image_scale", device).tensor(),
               mixes = inputs.contains("image_mixes") ? inputs.take("image_mixes", device).tensor() : Tensor();
  const std::int64_t samples = images.shape().front(), channels = images.shape().back();
  expect(scale.shape() == Shape({samples, 2, channels}) && (!mixes.defined() || mixes.shape() == Shape({samples, 6})),
         "images u8 {} expect `image_scale` {} and `image_mixes` {}, got {} and {}", images.shape(),
         Shape({samples, 2, channels}), Shape({samples, 6}), scale.shape(),
         mixes.defined() ? to_string(mixes.shape()) : "none");
  const AllocationScope scope({Purpose::data, Label("batch"), {}});
  const Tensor out = Tensor::empty(images.shape(), dtype, device, Purpose::data);
  normalize_pixels(device, images, scale, mixes, out);
  return out;
}

}  // namespace

Outputs ImageModel::forward(Inputs inputs) {
  Variable images = inputs.take("images", context().device);
  const Shape& shape = images.shape();
  expect(shape.rank() == 4 && shape[3] == in_channels() && takes(shape[1], shape[2]),
         "the model expects images [N, {}, {}, {}] (channels last), got {}", image_size().height, image_size().width,
         in_channels(), shape);
  if (images.dtype() == DType::u8) {
    images = Variable(normalized(images.tensor(), inputs, context().dtype), false, images.path());
  } else if (images.dtype() != context().dtype) {
    expect(!images.requires_grad(), "images that gather a gradient must have the model's type {}, got {}",
           name_of(context().dtype), name_of(images.dtype()));
    images = Variable(images.tensor().to(context().dtype), false, images.path());
  }
  return run_with(std::move(images), std::move(inputs));
}

std::vector<Variable> ImageModel::maps(Variable) { fail("the model gives no maps"); }

std::vector<std::size_t> wanted_maps(const ModelContext& context, std::size_t count) {
  std::vector<std::size_t> numbers;
  if (context.part_of.parent == nullptr) return numbers;
  const auto all = static_cast<std::int64_t>(count);
  for (const std::int64_t number : context.part_of.maps) {
    const std::int64_t at = number < 0 ? number + all : number;
    if (at < 0 || at >= all || (!numbers.empty() && at <= static_cast<std::int64_t>(numbers.back())))
      reject("the backbone gives maps 0 to {}: expected ascending numbers of them, got {}", all - 1, number);
    numbers.push_back(static_cast<std::size_t>(at));
  }
  return numbers;
}

Outputs ImageModel::run(Variable images) {
  Outputs outputs;
  outputs.set("logits", classify(std::move(images)));
  return outputs;
}

}  // namespace lacuna
