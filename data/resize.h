// Resampling of images, bit for bit as Pillow 13 does it: a filter, widened when the image shrinks, with weights in
// fixed point; columns first, then rows, rounded to u8 between; rows first where the height shrinks by more than twice
// as many pixels as the width.
#pragma once

#include <cstdint>
#include <vector>

namespace lacuna {

enum class ResizeFilter : std::uint8_t {
  bilinear,  // a triangle
  bicubic    // Keys' cubic convolution with a = −1/2
};

/// A part of a resampled axis.
struct AxisWindow {
  std::int64_t begin = 0, count = 0;
  bool reversed = false;  // from the last position to the first
};

/// The source positions and weights that make up the positions of a resampled axis.
class ResizeAxis {
 public:
  /// An axis of `source` positions as one of `target`, of which `window` is wanted.
  ResizeAxis(std::int64_t source, std::int64_t target, ResizeFilter filter, const AxisWindow& window);
  ResizeAxis(std::int64_t source, std::int64_t target, ResizeFilter filter)
      : ResizeAxis(source, target, filter, {.begin = 0, .count = target}) {}

  /// Positions by which the whole axis becomes shorter.
  std::int64_t shrinks_by() const { return shrinks_by_; }
  /// Positions that are made.
  std::int64_t size() const { return static_cast<std::int64_t>(taps_.size()); }
  /// Source positions [begin, end) are used.
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }

  struct Taps {
    std::int64_t first, count;  // source positions
    std::size_t weights;        // index of the first one's weight
  };
  const Taps& taps(std::int64_t position) const { return taps_[static_cast<std::size_t>(position)]; }
  /// Weights of the position's taps, in units of 2⁻²².
  const std::int32_t* weights(std::int64_t position) const { return weights_.data() + taps(position).weights; }
  /// The largest number of source positions that make up one.
  std::int64_t most_taps() const { return most_taps_; }

 private:
  std::int64_t shrinks_by_, begin_, end_ = 0, most_taps_ = 0;
  std::vector<Taps> taps_;
  std::vector<std::int32_t> weights_;
};

/// Resamples an image whose rows come one after the other. It keeps the rows that one new row is made of.
class RowResizer {
 public:
  /// `out` u8 [rows.size(), columns.size(), channels] with `out_row` bytes between rows.
  RowResizer(const ResizeAxis& rows, const ResizeAxis& columns, std::int64_t channels, std::uint8_t* out,
             std::int64_t out_row);

  /// The next source row, from rows.begin() on: columns [columns.begin(), columns.end()) of `channels` values each.
  void push(const std::uint8_t* row) { push(row, channels_); }
  /// The same of pixels of 3 channels and a fourth byte without meaning. 4 bytes after the row may be read.
  void push_padded(const std::uint8_t* row) { push(row, 4); }

 private:
  void push(const std::uint8_t* row, std::int64_t pixel_bytes);
  void make_columns(const std::uint8_t* row, std::int64_t pixel_bytes, std::uint8_t* to);
  template <int pairs>
  void make_columns_of_four(const std::uint8_t* row, std::int64_t first_channel, std::uint8_t* to) const;
  void make_group(const std::uint8_t* row, std::int64_t first_channel, std::uint8_t* to) const;

  const ResizeAxis* rows_;
  std::int64_t columns_, channels_, source_columns_;
  bool rows_first_;
  std::uint8_t* out_;
  std::int64_t out_row_;
  std::int64_t next_row_, next_out_ = 0;  // source row to come, row to make

  // Each column has as many pairs of taps, some with weight 0: loops of varying length would be mispredicted.
  std::int64_t pairs_;
  std::vector<std::int32_t> first_column_;     // [columns]: of the source, from columns.begin() on
  std::vector<std::int32_t> column_weights_;   // [columns, pairs, 2, 4]: a weight for each of four channels
  std::vector<std::uint8_t> padded_;           // [source columns + 1, 4]
  std::int64_t ring_rows_, ring_row_;          // rows, bytes
  std::vector<std::uint8_t> ring_;             // [ring_rows, ring_row]: rows that wait for their neighbours, by number
  std::vector<const std::uint8_t*> row_taps_;  // [ring_rows]
  std::vector<std::uint8_t> line_;             // [source columns + 1, pixel_bytes]: a new row of the old columns
  std::vector<std::uint8_t> columns_line_;     // [columns, channels] and 4: the same of the new columns
};

}  // namespace lacuna
