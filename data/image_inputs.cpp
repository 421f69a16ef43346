#include "data/image_inputs.h"

#include "data/encoded_images.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

class ImageInputs final : public InputReader {
 public:
  explicit ImageInputs(Transforms transforms) : transforms_(std::move(transforms)) {
    fields_ = {*find_images(describe(transforms_, files_))};
  }

  const SampleFields& fields() const override { return fields_; }

  void read(std::string_view file, Sample& sample) const override {
    const std::string& name = fields_.front().name;
    Tensor encoded = sample.make(name, {std::ssize(file)}, DType::u8);
    std::ranges::copy(file, encoded.data<std::uint8_t>());
    sample.set(name, std::move(encoded));
    SampleRandom random(0, 0, 0);
    apply(transforms_, files_, sample, random);
  }

 private:
  Transforms transforms_;
  SampleFields files_ = encoded_image_fields(), fields_;
};

}  // namespace

std::unique_ptr<const InputReader> image_inputs(Transforms transforms) {
  return std::make_unique<ImageInputs>(std::move(transforms));
}

}  // namespace lacuna
