#include "data/files/picture_names.h"

#include "core/error.h"
#include "core/text.h"
#include "data/images/image_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 14> read_extensions{".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".png", ".apng",
                                                           ".gif", ".webp", ".bmp", ".dib",  ".ppm", ".pgm", ".pnm"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> unread_extensions{{{".tif", "TIFF"},
                                                                                          {".tiff", "TIFF"},
                                                                                          {".avif", "AVIF"},
                                                                                          {".heic", "HEIC"},
                                                                                          {".heif", "HEIF"},
                                                                                          {".jp2", "JPEG 2000"},
                                                                                          {".j2k", "JPEG 2000"},
                                                                                          {".jxl", "JPEG XL"},
                                                                                          {".tga", "TGA"}}};

/// The extension in lower case; empty if a name has none, or one that stands for no kind, as in `IMG.2019.01`.
std::string extension_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  std::string extension = lower_case(name.substr(dot));
  constexpr std::size_t longest = 6;
  const bool is_kind = extension.size() <= longest &&
                       std::ranges::any_of(extension, [](unsigned char c) { return std::isalpha(c) != 0; });
  return is_kind ? extension : std::string();
}

bool is_read(std::string_view extension) {
  return std::ranges::find(read_extensions, extension) != read_extensions.end();
}

std::string_view format_not_read(std::string_view extension) {
  const auto found =
      std::ranges::find(unread_extensions, extension, &std::pair<std::string_view, std::string_view>::first);
  return found == unread_extensions.end() ? std::string_view() : found->second;
}

}  // namespace

std::string picture_extensions() { return fmt::format("{}", fmt::join(read_extensions, ", ")); }

bool is_image_name(std::string_view name) {
  const std::string extension = extension_of(name);
  return is_read(extension) || !format_not_read(extension).empty();
}

std::string_view unread_format(std::string_view name) { return format_not_read(extension_of(name)); }

bool has_no_kind(std::string_view name) { return extension_of(name).empty(); }

PictureFiles PictureFiles::of(const FileTree& tree) {
  PictureFiles files;
  files.is_picture.resize(static_cast<std::size_t>(tree.size()));
  std::string_view format;  // of the first picture that is not read
  std::int64_t first = 0, unread = 0;
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::string extension = extension_of(tree.path(file));
    std::string_view other = format_not_read(extension);
    bool picture = is_read(extension);
    if (extension.empty()) {
      std::array<std::uint8_t, 32> bytes{};
      const ImageFormat content = image_format(tree.read_begin(file, bytes));
      picture = content.is_read;
      if (!content.is_read) other = content.name;
    }
    if (!other.empty() && unread++ == 0) {
      format = other;
      first = file;
    }
    files.is_picture[static_cast<std::size_t>(file)] = picture;
    if (!picture && other.empty()) ++files.kinds[extension.empty() ? "without extension" : extension];
  }
  if (tree.replaced() > 0) files.kinds["of a name that comes again in its archive"] = tree.replaced();
  if (unread > 0)
    reject(
        "{}: {} is not read{}: convert it to PNG, as by ImageMagick's `mogrify -format png FILE`, and remove the "
        "original",
        tree.origin(first), format,
        unread == 1 ? "" : fmt::format(", nor are {} further files of such formats", unread - 1));
  return files;
}

std::string describe_left_out(const std::map<std::string, std::int64_t>& kinds) {
  std::int64_t all = 0;
  std::vector<std::string> parts;
  for (const auto& [kind, count] : kinds) {
    all += count;
    parts.push_back(fmt::format("{} {}", count, kind));
  }
  if (all == 0) return {};
  return all == 1 ? fmt::format("a file is left out ({})", parts.front())
                  : fmt::format("{} files are left out ({})", all, fmt::join(parts, ", "));
}

}  // namespace lacuna
