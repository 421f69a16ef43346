#include "data/geometry.h"

#include "core/error.h"
#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace lacuna {
namespace {

/// The source positions of a window's `count` positions from `corner` on; −1: outside.
std::vector<std::int64_t> sources_of(std::int64_t corner, std::int64_t count, std::int64_t begin, std::int64_t source,
                                     std::int64_t target) {
  const std::vector<std::int64_t> nearest =
      nearest_positions(source, target, std::clamp<std::int64_t>(corner + count, 0, target));
  std::vector<std::int64_t> positions;
  for (std::int64_t at = corner; at < corner + count; ++at)
    positions.push_back(at < 0 || at >= target ? -1 : begin + nearest[static_cast<std::size_t>(at)]);
  return positions;
}

/// Calls `pixel(i, source)` for each output pixel i, with the nearest source pixel or −1 outside of the image.
void each_source(const View& view, const Move& move, auto&& pixel) {
  std::vector<std::int64_t> columns = sources_of(view.left, move.to.width, view.box.left, view.box.width, view.width);
  if (view.flip) std::ranges::reverse(columns);
  const std::vector<std::int64_t> rows =
      sources_of(view.top, move.to.height, view.box.top, view.box.height, view.height);
  for (std::int64_t y = 0; y < move.to.height; ++y) {
    const std::int64_t row = rows[static_cast<std::size_t>(y)];
    for (std::int64_t x = 0; x < move.to.width; ++x) {
      const std::int64_t column = columns[static_cast<std::size_t>(x)];
      pixel(y * move.to.width + x, row < 0 || column < 0 ? -1 : row * move.from.width + column);
    }
  }
}

void each_source(const Affine& map, const Move& move, auto&& pixel) {
  const auto height = static_cast<double>(move.from.height), width = static_cast<double>(move.from.width);
  for (std::int64_t row = 0; row < move.to.height; ++row)
    for (std::int64_t column = 0; column < move.to.width; ++column) {
      const double x = static_cast<double>(column) + 0.5, y = static_cast<double>(row) + 0.5;
      const double from_x = map.xx * x + map.xy * y + map.x0, from_y = map.yx * x + map.yy * y + map.y0;
      const bool inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
      pixel(row * move.to.width + column,
            inside ? static_cast<std::int64_t>(from_y) * move.from.width + static_cast<std::int64_t>(from_x) : -1);
    }
}

template <class T>
void move_mask(const Move& move, T outside, const Tensor& in, const Tensor& out) {
  const T* const from = in.data<const T>();
  T* const to = out.data<T>();
  const auto pixel = [&](std::int64_t i, std::int64_t source) { to[i] = source < 0 ? outside : from[source]; };
  std::visit([&](const auto& how) { each_source(how, move, pixel); }, move.how);
}

void move_mask(const Move& move, const SampleField& field, Sample& sample) {
  const Tensor in = sample[field.name];
  if (!(in.shape() == Shape{move.from.height, move.from.width}))
    reject_sample("`{}`: expected a mask of the image's size [{}, {}], got {}", field.name, move.from.height,
                  move.from.width, in.shape());
  Tensor out = sample.make(field.name, {move.to.height, move.to.width}, in.dtype());
  if (in.dtype() == DType::u8)
    move_mask(move, static_cast<std::uint8_t>(field.padding), in, out);
  else
    move_mask(move, static_cast<std::int64_t>(field.padding), in, out);
  sample.set(field.name, std::move(out));
}

struct Box {
  double left, top, right, bottom;

  Box within(const Box& limits) const {
    return {std::max(left, limits.left), std::max(top, limits.top), std::min(right, limits.right),
            std::min(bottom, limits.bottom)};
  }
  double width() const { return right - left; }
  double height() const { return bottom - top; }
  bool is_empty() const { return !(left < right && top < bottom); }
  /// Whether less than a pixel is left of a side of `whole`, and less than there was.
  bool is_sliver_of(const Box& whole) const {
    return (width() < 1 && width() < whole.width()) || (height() < 1 && height() < whole.height());
  }
};

Box moved(const Box& box, const View& view, const Move& move) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double across = real(view.width) / real(view.box.width), down = real(view.height) / real(view.box.height);
  const auto x_of = [&](double x) { return (x - real(view.box.left)) * across - real(view.left); };
  const auto y_of = [&](double y) { return (y - real(view.box.top)) * down - real(view.top); };
  const Box out{x_of(box.left), y_of(box.top), x_of(box.right), y_of(box.bottom)};
  const double width = real(move.to.width);
  return view.flip ? Box{width - out.right, out.top, width - out.left, out.bottom} : out;
}

/// The part of the output that shows the image.
Box shown(const View& view, const Move& move) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const Box source{real(view.box.left), real(view.box.top), real(view.box.left + view.box.width),
                   real(view.box.top + view.box.height)};
  return moved(source, view, move).within({0, 0, real(move.to.width), real(move.to.height)});
}
Box shown(const Affine&, const Move& move) {
  return {0, 0, static_cast<double>(move.to.width), static_cast<double>(move.to.height)};
}

/// The box around the four moved corners.
Box moved(const Box& box, const Affine& map, const Move&) {
  const double determinant = map.xx * map.yy - map.xy * map.yx;
  constexpr double far = std::numeric_limits<double>::infinity();
  Box out{far, far, -far, -far};
  for (const double x : {box.left - map.x0, box.right - map.x0})
    for (const double y : {box.top - map.y0, box.bottom - map.y0}) {
      const double to_x = (map.yy * x - map.xy * y) / determinant, to_y = (map.xx * y - map.yx * x) / determinant;
      out = {std::min(out.left, to_x), std::min(out.top, to_y), std::max(out.right, to_x), std::max(out.bottom, to_y)};
    }
  return out;
}

/// Moves boxes [K, 4] in place; marks those that are still in the image, of which no crop has left a sliver.
std::vector<bool> move_boxes(const Move& move, const Tensor& boxes) {
  std::vector<bool> kept;
  const bool crops = std::holds_alternative<View>(move.how);
  const Box limits = std::visit([&](const auto& how) { return shown(how, move); }, move.how);
  for (std::int64_t i = 0; i < boxes.shape()[0]; ++i) {
    float* const row = boxes.data<float>() + 4 * i;
    const Box box{row[0], row[1], row[2], row[3]};
    const Box whole = std::visit([&](const auto&how) { return moved(box, how, move); }, move.how),
              to = whole.within(limits);
    kept.push_back(!box.is_empty() && !to.is_empty() && !(crops && to.is_sliver_of(whole)));
    row[0] = static_cast<float>(to.left);
    row[1] = static_cast<float>(to.top);
    row[2] = static_cast<float>(to.right);
    row[3] = static_cast<float>(to.bottom);
  }
  return kept;
}

/// Keeps some rows of a tensor of the sample.
void keep_rows(const std::vector<bool>& kept, std::string_view name, Sample& sample) {
  const Tensor in = sample[name];
  expect(in.shape().rank() > 0 && in.shape()[0] == std::ssize(kept), "`{}`: expected {} rows, one a box, got {}", name,
         kept.size(), in.shape());
  std::vector<std::int64_t> extents(in.shape().begin(), in.shape().end());
  extents.front() = std::ranges::count(kept, true);
  Tensor out = sample.make(name, Shape(extents), in.dtype());
  const std::int64_t bytes = in.shape()[0] == 0 ? 0 : in.bytes() / in.shape()[0];
  for (std::int64_t from = 0, to = 0; from < std::ssize(kept); ++from)
    if (kept[static_cast<std::size_t>(from)])
      std::memcpy(out.data<std::byte>() + bytes * to++, in.data<const std::byte>() + bytes * from,
                  static_cast<std::size_t>(bytes));
  sample.set(name, std::move(out));
}

void move_boxes(const Geometry& geometry, const SampleField& field, const SampleFields& fields, Sample& sample) {
  const Tensor in = sample[field.name];
  expect(in.dtype() == DType::f32 && in.shape().rank() == 2 && in.shape()[1] == 4,
         "`{}`: expected boxes f32 [K, 4], got {} {}", field.name, name_of(in.dtype()), in.shape());
  Tensor out = sample.scratch(in.shape(), DType::f32);
  out.copy_from(in);
  sample.set(field.name, std::move(out));
  for (const Move& move : geometry) {
    const std::vector<bool> kept = move_boxes(move, sample[field.name]);
    if (std::ranges::all_of(kept, std::identity())) continue;
    for (const SampleField& other : fields)
      if (lengths_of(other) == lengths_of(field)) keep_rows(kept, other.name, sample);
  }
}

}  // namespace

Geometry moved_window(ImageSize size, std::int64_t top, std::int64_t left, bool flip) {
  return {Move{.from = size,
               .to = size,
               .how = View{.box = {.height = size.height, .width = size.width},
                           .height = size.height,
                           .width = size.width,
                           .top = top,
                           .left = left,
                           .flip = flip}}};
}

bool follows_pixels(FieldKind kind) { return kind == FieldKind::mask || kind == FieldKind::boxes; }

SampleFields follow(SampleFields fields, const SampleField& pixels) {
  const auto is_image = [](FieldKind kind) { return kind == FieldKind::pixels || kind == FieldKind::image_file; };
  expect(std::ranges::count_if(fields, is_image, &SampleField::kind) == 1,
         "transforms move one image of each sample, got {}", to_string(fields));
  for (SampleField& field : fields) {
    if (is_image(field.kind)) {
      field = pixels;
    } else if (field.kind == FieldKind::mask) {
      expect((field.dtype == DType::u8 || field.dtype == DType::i64) && field.shape.rank() == 2 &&
                 field.collation == Collation::stacked,
             "`{}`: expected a mask u8 or i64 [H, W] in each sample, got {} {}", field.name, name_of(field.dtype),
             field.shape);
      field.shape = {pixels.shape[0], pixels.shape[1]};
    } else if (field.kind == FieldKind::boxes) {
      expect(field.dtype == DType::f32 && field.shape.rank() == 2 && field.shape[1] == 4 &&
                 field.collation != Collation::stacked,
             "`{}`: expected boxes f32 [K, 4], packed or padded, got {} {}", field.name, name_of(field.dtype),
             field.shape);
      const auto numbers_boxes = [&](const SampleField& other) {
        return other.kind == FieldKind::edges && indexes_of(other) == lengths_of(field);
      };
      expect(std::ranges::none_of(fields, numbers_boxes),
             "`{}`: boxes that leave the image go, and edges that number them cannot follow; got {}", field.name,
             to_string(fields));
    }
  }
  return fields;
}

void follow(const Geometry& geometry, const SampleFields& fields, Sample& sample) {
  if (geometry.empty()) return;
  for (const SampleField& field : fields) {
    if (field.kind == FieldKind::mask)
      for (const Move& move : geometry) move_mask(move, field, sample);
    if (field.kind == FieldKind::boxes) move_boxes(geometry, field, fields, sample);
  }
}

}  // namespace lacuna
