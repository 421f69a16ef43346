// An image as a model is shown it that finds something in places of it.
#pragma once

#include "data/image_size.h"
#include "data/images/image_reader.h"
#include "data/transforms.h"

#include <filesystem>
#include <string>
#include <vector>

namespace lacuna::apps {

/// How the file of an image is decoded.
DecodeOptions decoding_of(const TransformOptions& images);
/// Its size before anything is resized.
ImageSize size_of_image(const std::string& bytes, const TransformOptions& images);
/// Normalised pixels f32 [height, width, channels]: the whole image resized to `resized`, at the top left of `size`.
Tensor shown_pixels(const std::string& bytes, const TransformOptions& images, ImageSize resized, ImageSize size,
                    std::int64_t channels);

/// Rejects a file to write that is one of `inputs`, or lies in one.
void check_no_input(const std::filesystem::path& file, const std::vector<std::string>& inputs);

}  // namespace lacuna::apps
