#include "data/image_inputs.h"

#include "data/encoded_images.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

class ImageInputs final : public InputReader {
 public:
  explicit ImageInputs(Transforms transforms) : transforms_(std::move(transforms)) {
    SampleFields fields = encoded_image_fields();
    for (const auto& transform : transforms_) fields = transform->describe(std::move(fields));
    fields_ = {field_of(fields, "images")};
  }

  const SampleFields& fields() const override { return fields_; }

  void read(std::string_view file, Sample& sample) const override {
    Tensor encoded = sample.make("encoded", {std::ssize(file)}, DType::u8);
    std::ranges::copy(file, encoded.data<std::uint8_t>());
    sample.set("encoded", std::move(encoded));
    SampleRandom random(0, 0, 0);
    for (const auto& transform : transforms_) transform->apply(sample, random);
  }

 private:
  Transforms transforms_;
  SampleFields fields_;
};

}  // namespace

std::unique_ptr<const InputReader> image_inputs(Transforms transforms) {
  return std::make_unique<ImageInputs>(std::move(transforms));
}

}  // namespace lacuna
