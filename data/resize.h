// Image resizing, bit-identical to Pillow 13: separable, antialiased filters with fixed-point weights. The horizontal
// pass runs first and is rounded to u8; the vertical pass runs first if the height shrinks by more than twice as many
// pixels as the width.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// Pillow's NEAREST: the source position of each of the first `count` of `target` positions, which share `source`.
std::vector<std::int64_t> nearest_positions(std::int64_t source, std::int64_t target, std::int64_t count);

enum class ResizeFilter : std::uint8_t {
  bilinear,  // the triangle filter
  bicubic,   // Keys' cubic convolution with a = −1/2
  nearest,   // one pixel, without antialiasing
  box,       // the mean of the pixels that an output pixel covers
  hamming,   // a windowed sinc as wide as the triangle
  lanczos    // a sinc windowed by a sinc, of three lobes
};

std::array<std::pair<std::string_view, ResizeFilter>, 6> names_of(ResizeFilter);

/// A window of a resampled axis.
struct AxisWindow {
  std::int64_t begin = 0, count = 0;
  bool reversed = false;  // positions run from last to first
};

/// The filter taps (source positions and weights) of each position of a resampled axis.
class ResizeAxis {
 public:
  /// Resamples an axis of `source` positions to `target` positions, of which only `window` is computed.
  ResizeAxis(std::int64_t source, std::int64_t target, ResizeFilter filter, const AxisWindow& window);
  ResizeAxis(std::int64_t source, std::int64_t target, ResizeFilter filter)
      : ResizeAxis(source, target, filter, {.begin = 0, .count = target}) {}

  /// `source` − `target`.
  std::int64_t shrinks_by() const { return shrinks_by_; }
  /// Number of positions in the window.
  std::int64_t size() const { return static_cast<std::int64_t>(taps_.size()); }
  /// The source positions [begin, end) that the taps read.
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }

  struct Taps {
    std::int64_t first, count;  // source positions
    std::size_t weights;        // index of the first tap's weight
  };
  const Taps& taps(std::int64_t position) const { return taps_[static_cast<std::size_t>(position)]; }
  /// Tap weights of a position, in units of 2⁻²².
  const std::int32_t* weights(std::int64_t position) const { return weights_.data() + taps(position).weights; }
  /// The largest number of taps of any position.
  std::int64_t most_taps() const { return most_taps_; }

 private:
  std::int64_t shrinks_by_, begin_, end_ = 0, most_taps_ = 0;
  std::vector<Taps> taps_;
  std::vector<std::int32_t> weights_;
};

/// Resizes an image fed row by row. It buffers only the source rows that the next output row needs.
class RowResizer {
 public:
  /// `out` u8 [rows.size(), columns.size(), channels] with `out_row` bytes between rows.
  RowResizer(const ResizeAxis& rows, const ResizeAxis& columns, std::int64_t channels, std::uint8_t* out,
             std::int64_t out_row);

  /// Takes the next source row, starting with rows.begin(): columns [columns.begin(), columns.end()) × channels.
  void push(const std::uint8_t* row) { push(row, channels_); }
  /// The same for pixels of 3 channels and a padding byte. It may read 4 bytes past the row.
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
  std::int64_t next_row_, next_out_ = 0;  // next source row expected, next output row to write

  // All columns have the same number of tap pairs, zero-padded, because branches of varying loop lengths mispredict.
  std::int64_t pairs_;
  std::vector<std::int32_t> first_column_;     // [columns]: first source column, relative to columns.begin()
  std::vector<std::int32_t> column_weights_;   // [columns, pairs, 2, 4]: each weight repeated for four channels
  std::vector<std::uint8_t> padded_;           // [source columns + 1, 4]
  std::int64_t ring_rows_, ring_row_;          // rows, bytes
  std::vector<std::uint8_t> ring_;             // [ring_rows, ring_row]: ring buffer of rows that later output rows need
  std::vector<const std::uint8_t*> row_taps_;  // [ring_rows]
  std::vector<std::uint8_t> line_;  // [source columns + 1, pixel_bytes]: an output row before the horizontal pass
  std::vector<std::uint8_t> columns_line_;  // [columns, channels] and 4 bytes: the same after the horizontal pass
};

}  // namespace lacuna
