#include "data/image_size.h"

#include <vector>

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

}  // namespace lacuna
