#include "data/images/view.h"

#include "core/error.h"
#include "data/images/decoder_memory.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

/// Python's round: halves to even.
std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

/// A source of pixel rows u8 [height, width, channels].
struct Source {
  std::int64_t height, width, channels;
  const Tensor* pixels = nullptr;  // null: rows come from `reader`
  ImageReader* reader = nullptr;
};

void read_rows(const Source& source, const ImageBox& box, RowResizer& to) {
  if (source.reader != nullptr) {
    const DecoderMemory memory(source.reader->held_bytes());
    if (source.channels == 3) {
      source.reader->read(box, [&](const std::uint8_t* row) { to.push_padded(row); });
      return;
    }
    std::vector<std::uint8_t> grey(static_cast<std::size_t>(box.width + 4));
    source.reader->read(box, [&](const std::uint8_t* row) {
      // Pillow's conversion, ITU-R 601-2 in 16 bits.
      for (std::int64_t x = 0; x < box.width; ++x, row += 4)
        grey[static_cast<std::size_t>(x)] =
            static_cast<std::uint8_t>((row[0] * 19595U + row[1] * 38470U + row[2] * 7471U + 0x8000U) >> 16U);
      to.push(grey.data());
    });
    return;
  }
  for (std::int64_t y = box.top; y < box.top + box.height; ++y)
    to.push(source.pixels->data<const std::uint8_t>() + (y * source.width + box.left) * source.channels);
}

/// The part of a window of `side` positions at `corner` that is within [0, extent).
AxisWindow inside(std::int64_t corner, std::int64_t side, std::int64_t extent) {
  const std::int64_t begin = std::clamp<std::int64_t>(-corner, 0, side);
  const std::int64_t end = std::clamp<std::int64_t>(extent - corner, begin, side);
  return {.begin = begin, .count = end - begin};
}

/// Renders `view` of the source into `out` u8 [height, width, channels].
void draw(const Source& source, const View& view, ResizeFilter filter, std::span<const std::uint8_t> fill,
          const Tensor& out) {
  const std::int64_t height = out.shape()[0], width = out.shape()[1], channels = out.shape()[2];
  std::uint8_t* const pixels = out.data<std::uint8_t>();
  AxisWindow rows = inside(view.top, height, view.height), columns = inside(view.left, width, view.width);
  if (rows.count < height || columns.count < width)
    for (std::int64_t i = 0; i < out.count(); ++i)
      pixels[i] = fill.empty() ? 0 : fill[static_cast<std::size_t>(i % channels)];
  if (rows.count == 0 || columns.count == 0) return;
  const std::int64_t down = rows.begin, right = view.flip ? width - columns.begin - columns.count : columns.begin;
  rows.begin += view.top;
  columns.begin += view.left;
  columns.reversed = view.flip;
  const ResizeAxis row_axis(view.box.height, view.height, filter, rows),
      column_axis(view.box.width, view.width, filter, columns);
  RowResizer resizer(row_axis, column_axis, channels, pixels + (down * width + right) * channels, width * channels);
  read_rows(source,
            {.top = view.box.top + row_axis.begin(),
             .left = view.box.left + column_axis.begin(),
             .height = row_axis.end() - row_axis.begin(),
             .width = column_axis.end() - column_axis.begin()},
            resizer);
}

/// The box in an image downscaled by `factor`.
ImageBox smaller(const ImageBox& box, std::int64_t factor) {
  return {.top = box.top / factor,
          .left = box.left / factor,
          .height = std::max<std::int64_t>(box.height / factor, 1),
          .width = std::max<std::int64_t>(box.width / factor, 1)};
}

}  // namespace

SampleField ViewTransform::describe(SampleField image) const {
  const bool is_file = image.kind == FieldKind::image_file;
  expect((is_file || image.kind == FieldKind::pixels) && image.dtype == DType::u8 &&
             image.shape.rank() == (is_file ? 1 : 3),
         "a view expects image files or pixels u8 [H, W, C], got `{}` ({}) {} {}", image.name, name_of(image.kind),
         name_of(image.dtype), image.shape);
  const std::int64_t channels = is_file ? options_.channels : image.shape[2];
  return {.name = image.name,
          .kind = FieldKind::pixels,
          .dtype = DType::u8,
          .shape = {size().height, size().width, channels}};
}

Geometry ViewTransform::apply(SampleImage& image, SampleRandom& random) const {
  const Tensor in = image.tensor();
  std::unique_ptr<ImageReader> reader;
  Source source{};
  if (in.shape().rank() == 3) {
    source = {.height = in.shape()[0], .width = in.shape()[1], .channels = in.shape()[2], .pixels = &in};
  } else {
    reader = open_image({in.data<const std::uint8_t>(), static_cast<std::size_t>(in.count())}, options_.decode);
    source = {
        .height = reader->height(), .width = reader->width(), .channels = options_.channels, .reader = reader.get()};
  }
  const View exact = view_of(image, source.height, source.width, random);
  View seen = exact;
  const ResizeFilter filter = options_.interpolation != Interpolation::random ? filter_of(options_.interpolation)
                              : random.below(2) == 1                          ? ResizeFilter::bicubic
                                                                              : ResizeFilter::bilinear;
  if (options_.fast && reader != nullptr) {
    std::int64_t factor = 1;
    // The filter does at least half of the reduction, since its quality is better.
    while (factor < 8 && seen.box.height >= 4 * factor * seen.height && seen.box.width >= 4 * factor * seen.width)
      factor *= 2;
    seen.box = smaller(seen.box, reader->shrink(factor));
  }
  Tensor out = image.make({size().height, size().width, source.channels}, DType::u8);
  draw(source, seen, filter, options_.fill, out);
  image.set(std::move(out));
  return {Move{.from = {source.height, source.width}, .to = size(), .how = exact}};
}

View RandomResizedCrop::view(std::int64_t height, std::int64_t width, SampleRandom& random) const {
  View view{.box = {}, .height = size().height, .width = size().width};
  const auto area = static_cast<double>(height * width);
  constexpr int tries = 10;
  bool found = false;
  for (int i = 0; i < tries && !found; ++i) {
    const double part = area * random.uniform(ranges_.least_scale, ranges_.most_scale);
    const double ratio = std::exp(random.uniform(std::log(ranges_.least_ratio), std::log(ranges_.most_ratio)));
    view.box.width = rounded(std::sqrt(part * ratio));
    view.box.height = rounded(std::sqrt(part / ratio));
    found = 0 < view.box.width && view.box.width <= width && 0 < view.box.height && view.box.height <= height;
  }
  if (found) {
    view.box.top = random.below(height - view.box.height + 1);
    view.box.left = random.below(width - view.box.width + 1);
  } else {
    // The fallback is the largest center crop with an allowed aspect ratio.
    view.box.width = std::clamp<std::int64_t>(rounded(static_cast<double>(height) * ranges_.most_ratio), 1, width);
    view.box.height = std::clamp<std::int64_t>(rounded(static_cast<double>(width) / ranges_.least_ratio), 1, height);
    view.box.top = (height - view.box.height) / 2;
    view.box.left = (width - view.box.width) / 2;
  }
  view.flip = random.uniform() < ranges_.flip;
  return view;
}

CropMode crop_mode_of(std::string_view name) {
  if (name == "center") return CropMode::center;
  if (name == "squash") return CropMode::squash;
  if (name == "border") return CropMode::border;
  reject("data.crop_mode: expected center, squash or border; got '{}'", name);
}

View CenterView::view(std::int64_t height, std::int64_t width, SampleRandom&) const {
  const auto scaled = [&](std::int64_t side) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(side) / crop_pct_));
  };
  View view{.box = {.height = height, .width = width}, .height = scaled(size().height), .width = scaled(size().width)};
  if (mode_ == CropMode::center && view.height == view.width) {
    // torchvision's Resize truncates the longer side to whole pixels.
    const std::int64_t longer = view.height * std::max(height, width) / std::min(height, width);
    (height > width ? view.height : view.width) = longer;
  } else if (mode_ != CropMode::squash) {
    // timm's ResizeKeepRatio rounds both sides.
    const double down = static_cast<double>(height) / static_cast<double>(view.height),
                 across = static_cast<double>(width) / static_cast<double>(view.width);
    const double ratio = mode_ == CropMode::border ? std::max(down, across) : std::min(down, across);
    view.height = std::max<std::int64_t>(rounded(static_cast<double>(height) / ratio), 1);
    view.width = std::max<std::int64_t>(rounded(static_cast<double>(width) / ratio), 1);
  }
  // timm pads first (less at the top and left), then crops the center, with offsets rounded half to even.
  const auto corner = [](std::int64_t extent, std::int64_t side) {
    return extent < side ? -((side - extent) / 2) : rounded(static_cast<double>(extent - side) / 2);
  };
  view.top = corner(view.height, size().height);
  view.left = corner(view.width, size().width);
  return view;
}

}  // namespace lacuna
