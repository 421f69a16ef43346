#include "apps/commands/shown_image.h"

#include "core/error.h"
#include "data/encoded_images.h"
#include "data/images/view.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace lacuna::apps {
namespace {

/// The whole image, resized, at the top left of the pixels that the model is shown.
class WholeView final : public ViewTransform {
 public:
  WholeView(ViewOptions options, ImageSize size) : ViewTransform(std::move(options)), size_(size) {}
  View view(std::int64_t height, std::int64_t width, SampleRandom&) const override {
    return {.box = {.height = height, .width = width}, .height = size_.height, .width = size_.width};
  }

 private:
  ImageSize size_;
};

std::span<const std::uint8_t> file_of(const std::string& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

DecodeOptions decoding_of(const TransformOptions& images) {
  return {.apply_exif = images.exif == ExifUse::apply, .scale_grey = images.grey16 == WideGrey::scale};
}

ImageSize size_of_image(const std::string& bytes, const TransformOptions& images) {
  const auto header = open_image(file_of(bytes), decoding_of(images));
  return {header->height(), header->width()};
}

Tensor shown_pixels(const std::string& bytes, const TransformOptions& images, ImageSize resized, ImageSize size,
                    std::int64_t channels) {
  const std::vector<float> mean(images.mean.begin(), images.mean.end()),
      deviation(images.deviation.begin(), images.deviation.end());
  ViewOptions view{
      .size = size, .channels = channels, .interpolation = images.interpolation, .decode = decoding_of(images)};
  for (const float value : mean) view.fill.push_back(static_cast<std::uint8_t>(std::nearbyint(255 * value)));
  const SampleFields fields = {*find_images(encoded_image_fields())};
  Sample sample;
  sample.begin(0);
  Tensor encoded = sample.make(fields.front().name, {std::ssize(bytes)}, DType::u8);
  std::ranges::copy(file_of(bytes), encoded.data<std::uint8_t>());
  sample.set(fields.front().name, std::move(encoded));
  SampleRandom random(0, 0, 0);
  apply({std::make_shared<WholeView>(std::move(view), resized), std::make_shared<Normalize>(mean, deviation)}, fields,
        sample, random);
  return sample[fields.front().name].clone(Purpose::data);
}

void check_no_input(const std::filesystem::path& file, const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(file, error)) return;
  const fs::path whole = fs::canonical(file, error);
  for (const std::string& input : inputs)
    for (fs::path path = whole; path.has_relative_path(); path = path.parent_path())
      if (fs::equivalent(path, input, error) && (path == whole || fs::is_directory(path, error)))
        reject("{}: is there, and belongs to the input {}: expected --out with another folder", file.native(), input);
}

}  // namespace lacuna::apps
