#include "data/images/formats.h"

#include <algorithm>
#include <string_view>

namespace lacuna {
namespace {

/// Reads integers from a block in either byte order; 0 past its end.
class Numbers {
 public:
  Numbers(std::span<const std::uint8_t> block, bool little) : block_(block), little_(little) {}

  std::uint64_t operator()(std::size_t at, std::size_t bytes) const {
    if (at > block_.size() || bytes > block_.size() - at) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | block_[at + (little_ ? bytes - 1 - i : i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> block_;
  bool little_;
};

bool begins(std::span<const std::uint8_t> block, std::string_view with) {
  return block.size() >= with.size() && std::equal(with.begin(), with.end(), block.begin(), [](char a, std::uint8_t b) {
           return static_cast<std::uint8_t>(a) == b;
         });
}

using namespace std::string_view_literals;

/// The orientation: entry 0x0112 in the first directory of EXIF's TIFF structure (EXIF 2.32, section 4.6).
int orientation_of(std::span<const std::uint8_t> tiff) {
  const bool little = begins(tiff, "II*\0"sv);
  if (!little && !begins(tiff, "MM\0*"sv)) return 1;
  const Numbers number(tiff, little);
  const std::size_t directory = number(4, 4), entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * 12;
    if (number(entry, 2) != 0x0112) continue;
    const std::uint64_t value = number(entry + 8, 2);
    return 1 <= value && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::span<const std::uint8_t> file) {
  const Numbers number(file, false);
  if (begins(file, "\x89PNG"sv)) {
    for (std::size_t at = 8; at + 12 <= file.size();) {
      const std::size_t length = std::min<std::size_t>(number(at, 4), file.size() - at - 12);
      if (begins(file.subspan(at + 4), "eXIf"sv)) return orientation_of(file.subspan(at + 8, length));
      at += length + 12;
    }
    return 1;
  }
  if (!begins(file, "\xff\xd8"sv)) return 1;
  for (std::size_t at = 2; at + 4 <= file.size() && file[at] == 0xff && file[at + 1] != 0xda;) {
    if (file[at + 1] == 0xff) {  // padding
      ++at;
      continue;
    }
    const std::size_t length = std::min<std::size_t>(number(at + 2, 2), file.size() - at - 2);
    if (file[at + 1] == 0xe1 && length > 8 && begins(file.subspan(at + 4), "Exif\0\0"sv))
      return orientation_of(file.subspan(at + 10, length - 8));
    if (length < 2) return 1;
    at += 2 + length;
  }
  return 1;
}

}  // namespace lacuna
