// The pixels of mask files, and the labels that their values stand for.
#pragma once

#include "core/schema.h"
#include "core/schema_maps.h"
#include "data/images/image_reader.h"
#include "data/segmentation/mask.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lacuna {

enum class ZeroLabel : std::uint8_t { automatic, is_class, ignored };
std::array<std::pair<std::string_view, ZeroLabel>, 3> names_of(ZeroLabel);

/// How values of mask files become labels.
struct MaskValueOptions {
  std::string ignore{};  // empty: 65535, and 255 of up to 255 classes
  ZeroLabel zero_label = ZeroLabel::automatic;
  std::vector<TreeEntry> map{};  // value in files: label
  Tree colors{};                 // colours in the order of the classes, or the path of a table of them; null: none

  static Fields fields();
};

/// The colours of classes, for masks whose pixels are colours.
class MaskColors {
 public:
  MaskColors() = default;
  /// Colours as `#ff0000` or [255, 0, 0], or a CSV file with lines of name, r, g and b. Rejects two classes of a
  /// colour.
  explicit MaskColors(const Tree& colors);

  bool empty() const { return numbers_.empty(); }
  std::int64_t size() const { return std::ssize(numbers_); }
  /// From the file; empty if none was given.
  const std::vector<std::string>& names() const { return names_; }
  /// The number of a colour r·65536 + g·256 + b.
  std::optional<std::uint16_t> find(std::uint32_t color) const;

 private:
  void add(std::uint32_t color, const std::string& written);

  std::map<std::uint32_t, std::uint16_t> numbers_;
  std::vector<std::string> names_;
};

/// A mask file. The reader of one is used once.
class MaskReader {
 public:
  /// Reads the header of a PNG, PGM or BMP of values or, with `colors`, of colours; `bytes` must outlive the reader.
  /// Other formats and files without values throw DamagedSample.
  MaskReader(std::span<const std::uint8_t> bytes, const MaskColors& colors);

  std::int64_t height() const { return reader_->height(); }
  std::int64_t width() const { return reader_->width(); }
  /// Passes each row of values, [width], from top to bottom: the index of palette images, the number of a colour, 0 and
  /// 1 of images of one bit, otherwise grey as it is.
  void read(const std::function<void(const std::uint16_t* row)>& consumer);

 private:
  std::unique_ptr<ImageReader> reader_;
  const MaskColors* colors_;
};

/// The meaning of values.
class MaskLabels {
 public:
  static constexpr std::int32_t ignored = -1;

  /// `usual`: labels of values where the options map none. `classes`: 0 if unknown.
  MaskLabels(const MaskValueOptions& options, const std::map<std::int64_t, std::int64_t>& usual, bool zero_is_ignored,
             std::int64_t classes);

  /// A class, or `ignored`; not yet compared with the number of classes.
  std::int32_t operator[](std::uint16_t value) const { return labels_[value]; }
  /// As `0 is ignored, 1 becomes 0`, for people; empty if values are labels.
  const std::string& description() const { return description_; }
  /// Renumbers the classes.
  void renumber(const std::vector<std::int64_t>& numbers);

 private:
  std::vector<std::int32_t> labels_;  // [65536]
  std::string description_;
};

}  // namespace lacuna
