#include "data/segmentation/mask_values.h"

#include "core/error.h"
#include "core/text.h"
#include "data/files/input_file.h"
#include "data/images/decoder_memory.h"
#include "data/labels.h"

#include <algorithm>
#include <charconv>

namespace lacuna {
namespace {

constexpr std::int64_t values = 65536;

std::optional<std::int64_t> value_in(std::string_view text) {
  const auto number = whole_number(without_blanks(text));
  return number && 0 <= *number && *number < values ? number : std::nullopt;
}

std::vector<std::string> cut(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::optional<std::uint32_t> color_in(std::span<const std::string> parts) {
  if (parts.size() != 3) return {};
  std::uint32_t color = 0;
  for (const std::string& part : parts) {
    const auto value = value_in(part);
    if (!value || *value > 255) return {};
    color = color * 256 + static_cast<std::uint32_t>(*value);
  }
  return color;
}

std::optional<std::uint32_t> color_of(const Tree& written) {
  if (written.kind == Tree::Kind::list) {
    std::vector<std::string> parts;
    for (const Tree& item : written.items) parts.push_back(item.text);
    return color_in(parts);
  }
  const std::string& text = written.text;
  std::uint32_t color = 0;
  if (text.size() != 7 || text.front() != '#') return color_in(cut(text, ','));
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + 7, color, 16);
  return error == std::errc() && end == text.data() + 7 ? std::optional(color) : std::nullopt;
}

std::string as_color(std::uint32_t color) {
  return fmt::format("({}, {}, {})", color >> 16, color >> 8 & 255, color & 255);
}

}  // namespace

std::array<std::pair<std::string_view, ZeroLabel>, 3> names_of(ZeroLabel) {
  return {{{"auto", ZeroLabel::automatic}, {"class", ZeroLabel::is_class}, {"ignore", ZeroLabel::ignored}}};
}

Fields MaskValueOptions::fields() {
  using O = MaskValueOptions;
  return {field("ignore", &O::ignore,
                "values of pixels that count for nothing, in loss and metrics: a number, several with commas, or "
                "`none`; empty: 65535, and 255 where there are 255 classes at most"),
          field("zero_label", &O::zero_label,
                "value 0 of masks: a `class`, or `ignore`: it counts for nothing, and value k is class k − 1 "
                "(reduce_zero_label); `auto`: `ignore` for ADE20K alone"),
          field("map", &O::map,
                "labels of values in masks, as `{7: 0, 8: 1, other: ignore}`; values without one stay; empty: that of "
                "the layout"),
          field("colors", &O::colors,
                "colours of the classes in their order, as `[[0, 0, 0], \"#ff0000\"]`, or a CSV file with lines of "
                "name, r, g, b: masks are pictures of these colours; empty: masks hold numbers")};
}

MaskColors::MaskColors(const Tree& colors) {
  if (colors.kind == Tree::Kind::null || (colors.kind == Tree::Kind::scalar && colors.text.empty())) return;
  if (colors.kind == Tree::Kind::list) {
    for (const Tree& one : colors.items) {
      const auto color = color_of(one);
      if (!color)
        reject("data.colors: expected colours as [255, 0, 0] or \"#ff0000\", got {}",
               one.kind == Tree::Kind::scalar ? one.text : "another value");
      add(*color, as_color(*color));
    }
    return;
  }
  if (colors.kind != Tree::Kind::scalar) reject("data.colors: expected a list of colours or a CSV file of them");
  constexpr std::int64_t longest = 1 << 20;
  int number = 0;
  for (std::string& line : cut(read_text(colors.text, longest), '\n')) {
    ++number;
    std::vector<std::string> parts = cut(line, ',');
    if (without_blanks(line).empty()) continue;
    const auto color = parts.size() == 4 ? color_in(std::span(parts).subspan(1)) : std::nullopt;
    if (!color && number == 1) continue;  // names of the columns
    if (!color) reject("{}:{}: expected name, r, g, b, got '{}'", colors.text, number, line);
    add(*color, fmt::format("{}:{}", colors.text, number));
    names_.emplace_back(without_blanks(parts.front()));
  }
  if (empty()) reject("{}: expected lines of name, r, g, b, got none", colors.text);
}

void MaskColors::add(std::uint32_t color, const std::string& written) {
  if (!numbers_.emplace(color, static_cast<std::uint16_t>(numbers_.size())).second)
    reject("data.colors: {}: another class has the colour {}", written, as_color(color));
}

std::optional<std::uint16_t> MaskColors::find(std::uint32_t color) const {
  const auto found = numbers_.find(color);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

MaskReader::MaskReader(std::span<const std::uint8_t> bytes, const MaskColors& colors) : colors_(&colors) {
  const std::string_view format = image_format(bytes).name;
  reader_ = open_image(bytes);
  if (format != "PNG" && format != "PGM" && format != "PPM" && format != "BMP")
    reject_sample("{} masks are not read{}: expected PNG, saved from the original", format,
                  format == "JPEG" || format == "WebP" ? ", since the format changes values" : "");
  if (colors.empty() && !reader_->give_values())
    reject_sample(
        "the mask holds colours (RGB), expected a number for each pixel (grey or palette), or data.colors with the "
        "colour of each class in their order, as data.colors='[[0, 0, 0], [255, 0, 0]]', or a CSV file with lines of "
        "name, r, g, b");
}

void MaskReader::read(const std::function<void(const std::uint16_t* row)>& consumer) {
  const DecoderMemory memory(reader_->held_bytes());
  std::vector<std::uint16_t> line(static_cast<std::size_t>(width()));
  std::uint32_t last = ~0U;
  std::uint16_t number = 0;
  std::int64_t y = 0;
  reader_->read({.height = height(), .width = width()}, [&](const std::uint8_t* row) {
    for (std::int64_t x = 0; x < width(); ++x, row += 4) {
      if (colors_->empty()) {
        line[static_cast<std::size_t>(x)] = static_cast<std::uint16_t>(row[0] | row[1] << 8);
        continue;
      }
      const std::uint32_t color = std::uint32_t{row[0]} << 16 | std::uint32_t{row[1]} << 8 | row[2];
      if (color != last) {
        const auto found = colors_->find(color);
        if (!found)
          reject_sample("colour {} at pixel x={}, y={}, expected one of the {} of data.colors", as_color(color), x, y,
                        colors_->size());
        last = color;
        number = *found;
      }
      line[static_cast<std::size_t>(x)] = number;
    }
    consumer(line.data());
    ++y;
  });
}

MaskLabels::MaskLabels(const MaskValueOptions& options, const std::map<std::int64_t, std::int64_t>& usual,
                       bool zero_is_ignored, std::int64_t classes)
    : labels_(values) {
  constexpr std::int32_t unset = -2;
  std::int32_t others = unset;
  std::ranges::fill(labels_, unset);
  std::vector<std::string> said;
  for (const TreeEntry& entry : options.map) {
    const bool is_ignored = entry.value.text == "ignore";
    const auto from = value_in(entry.key), to = value_in(entry.value.text);
    if ((!from && entry.key != "other") || (!to && !is_ignored))
      reject("data.map: expected values from 0 to {} with labels, as {{7: 0, other: ignore}}, got {}: {}", values - 1,
             entry.key, entry.value.text);
    const std::int32_t label = is_ignored ? ignored : static_cast<std::int32_t>(*to);
    (from ? labels_[static_cast<std::size_t>(*from)] : others) = label;
    said.push_back(fmt::format("{} {}", from ? entry.key : "any other value",
                               is_ignored ? "is ignored" : fmt::format("becomes {}", label)));
  }
  if (options.map.empty() && !usual.empty()) {
    others = ignored;
    for (const auto& [from, to] : usual) labels_[static_cast<std::size_t>(from)] = static_cast<std::int32_t>(to);
    said.push_back(fmt::format("{} values become classes, others are ignored", usual.size()));
  }
  const bool is_wide = classes + (zero_is_ignored ? 1 : 0) > ignored_pixel;  // 255 is a class
  const std::string usually = is_wide ? "65535" : "255, 65535",
                    &ignore = options.ignore.empty() ? usually : options.ignore;
  if (ignore != "none")
    for (const std::string& text : cut(ignore, ',')) {
      const auto value = value_in(text);
      if (!value) reject("data.ignore: expected values from 0 to {}, or none, got '{}'", values - 1, text);
      std::int32_t& label = labels_[static_cast<std::size_t>(*value)];
      if (label != unset) continue;  // data.map names it
      label = ignored;
      said.push_back(fmt::format("{} is ignored", *value));
    }
  for (std::size_t value = 0; value < labels_.size(); ++value) {
    std::int32_t& label = labels_[value];
    if (label == unset) label = others != unset ? others : static_cast<std::int32_t>(value);
    if (zero_is_ignored && label >= 0) --label;  // 0 becomes `ignored`
  }
  if (zero_is_ignored) said.emplace_back("0 is ignored and k becomes k − 1");
  description_ = fmt::format("{}", fmt::join(said, ", "));
}

void MaskLabels::renumber(const std::vector<std::int64_t>& numbers) {
  for (std::int32_t& label : labels_)
    if (label >= 0 && label < std::ssize(numbers))
      label = static_cast<std::int32_t>(numbers[static_cast<std::size_t>(label)]);
}

}  // namespace lacuna
