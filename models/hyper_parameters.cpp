#include "models/hyper_parameters.h"

#include <fmt/format.h>

#include <algorithm>

namespace lacuna {
namespace {

std::string read_sides(const Tree& from, Sides& sides, const Limits& limits) {
  const auto read = [&](const Tree& tree, std::int64_t& side) {
    Problems none;
    return codec_of<std::int64_t>().read(tree, &side, limits, {}, none).empty();
  };
  Sides found;
  const bool one = from.kind == Tree::Kind::scalar && read(from, found.first);
  if (one) found.second = found.first;
  if (!one && !(from.items.size() == 2 && read(from.items[0], found.first) && read(from.items[1], found.second)))
    return to_string(limits.range, true) + ", or two";
  sides = found;
  return {};
}

Tree written(const Sides& sides) {
  if (sides.first == sides.second) return sides.first;
  return std::vector{sides.first, sides.second};
}

std::string sides_type(const Limits& limits) { return to_string(limits.range, true).substr(2) + ", or two"; }

}  // namespace

const Tree* find_value(const std::vector<HyperParameter>& values, std::string_view key) {
  const auto found = std::ranges::find(values, key, &HyperParameter::key);
  return found == values.end() ? nullptr : &found->value;
}

template <>
const Codec& codec_of<Sides>() {
  static const Codec codec{[](const Tree& from, void* value, const Limits& limits, std::string_view, Problems&) {
                             return read_sides(from, *static_cast<Sides*>(value), limits);
                           },
                           [](const void* value) { return written(*static_cast<const Sides*>(value)); }, sides_type};
  return codec;
}

template <>
const Codec& codec_of<ImageSize>() {
  static const Codec codec{[](const Tree& from, void* value, const Limits& limits, std::string_view, Problems&) {
                             auto& size = *static_cast<ImageSize*>(value);
                             Sides sides{size.height, size.width};
                             std::string expected = read_sides(from, sides, limits);
                             size = {sides.first, sides.second};
                             return expected;
                           },
                           [](const void* value) {
                             const auto& size = *static_cast<const ImageSize*>(value);
                             return written({size.height, size.width});
                           },
                           sides_type};
  return codec;
}

Fields ImageOptions::fields() {
  return {field("image_size", &ImageOptions::image_size, extent_range, fits_weights,
                "image side in pixels, or [height, width]"),
          field("in_channels", &ImageOptions::in_channels, extent_range, fits_weights, "channels of the images"),
          field("num_classes", &ImageOptions::num_classes, between(1, 1 << 24), fits_weights, "outputs of the head")};
}

}  // namespace lacuna
