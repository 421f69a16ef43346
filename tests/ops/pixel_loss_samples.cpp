#include "ops/losses/pixel_loss.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

struct Extents {
  std::int64_t height, width, classes, out_height, out_width;
};

/// Labels of all classes but the last, and pixels that are ignored.
Tensor labels_of(const Extents& e, DType dtype) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 2 * e.out_height * e.out_width; ++i)
    labels.push_back(i % 5 == 3 ? 255 : (i * i / 3 + i) % (e.classes - 1));
  const Shape shape{2, e.out_height, e.out_width};
  if (dtype == DType::i64) return Tensor::from(std::span<const std::int64_t>(labels), shape);
  const Tensor bytes = Tensor::empty(shape, DType::u8, Device::cpu);
  for (std::size_t i = 0; i < labels.size(); ++i) bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(labels[i]);
  return bytes;
}

OpSample pixels(std::string name, PixelLoss op, Extents extents, DType labels, bool weighted) {
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                return std::vector{
                    sample_values({2, extents.height, extents.width, extents.classes}, dtype, 1),
                    labels_of(extents, labels),
                    weighted ? sample_values({extents.classes}, compute_type(dtype), 2, 0.3, 2) : Tensor()};
              },
          .differentiable = {0}};
}

const RegisterSample plain(pixels("pixel_loss", {}, {3, 4, 6, 11, 13}, DType::u8, false));
const RegisterSample weighted(pixels("pixel_loss with weights", {.label_smoothing = 0.1}, {4, 3, 35, 9, 10}, DType::i64,
                                     true));
const RegisterSample dice(pixels("pixel_loss of Dice alone", {.cross_entropy = 0, .dice = 1}, {3, 3, 5, 7, 8},
                                 DType::u8, false));
const RegisterSample both(pixels("pixel_loss of both, to fewer pixels", {.cross_entropy = 0.5, .dice = 2},
                                 {9, 8, 4, 5, 3}, DType::i64, true));

}  // namespace
}  // namespace lacuna
