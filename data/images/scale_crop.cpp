#include "data/images/scale_crop.h"

#include <algorithm>
#include <map>
#include <vector>

namespace lacuna {
namespace {

/// Whether a window of a mask [height, width] has two classes, the larger with less than `most` of the pixels that
/// count.
template <class T>
bool is_mixed(const View& view, const ImageSize& size, const T* mask, T ignored, double most) {
  const auto sources = [](std::int64_t corner, std::int64_t side, std::int64_t extent, std::int64_t from) {
    std::vector<std::int64_t> all = nearest_positions(from, extent, std::min(corner + side, extent));
    all.erase(all.begin(), all.begin() + corner);
    return all;
  };
  const std::vector<std::int64_t> rows = sources(view.top, size.height, view.height, view.box.height),
                                  columns = sources(view.left, size.width, view.width, view.box.width);
  std::map<T, std::int64_t> counts;
  for (const std::int64_t row : rows)
    for (std::size_t i = 0; i < columns.size();) {  // by runs of one class
      const T value = mask[row * view.box.width + columns[i]];
      const std::size_t begin = i;
      while (i < columns.size() && mask[row * view.box.width + columns[i]] == value) ++i;
      if (value != ignored) counts[value] += static_cast<std::int64_t>(i - begin);
    }
  std::int64_t all = 0, largest = 0;
  for (const auto& [value, count] : counts) {
    all += count;
    largest = std::max(largest, count);
  }
  return counts.size() > 1 && static_cast<double>(largest) < most * static_cast<double>(all);
}

}  // namespace

View ScaleCrop::scaled(std::int64_t height, std::int64_t width, SampleRandom& random) const {
  const double ratio = random.uniform(ranges_.least_ratio, ranges_.most_ratio);
  const auto longest = static_cast<double>(static_cast<std::int64_t>(static_cast<double>(ranges_.long_side) * ratio)),
             shortest = static_cast<double>(static_cast<std::int64_t>(static_cast<double>(ranges_.short_side) * ratio));
  const double factor = std::min(longest / static_cast<double>(std::max(height, width)),
                                 shortest / static_cast<double>(std::min(height, width)));
  const auto side = [&](std::int64_t of) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(of) * factor + 0.5));
  };
  return {.box = {.height = height, .width = width}, .height = side(height), .width = side(width)};
}

void ScaleCrop::draw_window(View& view, SampleRandom& random) const {
  view.top = random.below(std::max<std::int64_t>(view.height - size().height, 0) + 1);
  view.left = random.below(std::max<std::int64_t>(view.width - size().width, 0) + 1);
}

View ScaleCrop::finished(View view, SampleRandom& random) const {
  view.flip = random.uniform() < ranges_.flip;
  if (view.flip && view.width < size().width) view.left = view.width - size().width;  // padding stays at the right
  return view;
}

View ScaleCrop::view(std::int64_t height, std::int64_t width, SampleRandom& random) const {
  View view = scaled(height, width, random);
  draw_window(view, random);
  return finished(view, random);
}

View ScaleCrop::view_of(const SampleImage& image, std::int64_t height, std::int64_t width, SampleRandom& random) const {
  const SampleField* const field = image.mask();
  if (field == nullptr || ranges_.most_of_one_class >= 1 || !(image.mask_values().shape() == Shape{height, width}))
    return view(height, width, random);
  const Tensor& mask = image.mask_values();
  View view = scaled(height, width, random);
  const auto fits = [&] {
    const double most = ranges_.most_of_one_class;
    if (mask.dtype() == DType::u8)
      return is_mixed(view, size(), mask.data<const std::uint8_t>(), static_cast<std::uint8_t>(field->padding), most);
    return is_mixed(view, size(), mask.data<const std::int64_t>(), static_cast<std::int64_t>(field->padding), most);
  };
  constexpr int tries = 10;
  draw_window(view, random);
  for (int i = 0; i < tries && !fits(); ++i) draw_window(view, random);
  return finished(view, random);
}

}  // namespace lacuna
