// The readers based on stb_image: GIF, and JPEG in builds without libjpeg-turbo.
#include "data/images/formats.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace {

// The largest allocation that the current image may need, because a small file can claim to unpack to gigabytes.
thread_local std::size_t most_bytes = 0;

// Memory is zeroed, because stb_image reads memory that damaged files leave uninitialised.
void* limited_malloc(std::size_t bytes) { return bytes > most_bytes ? nullptr : std::calloc(bytes, 1); }
void* limited_realloc(void* old, std::size_t bytes) { return bytes > most_bytes ? nullptr : std::realloc(old, bytes); }

}  // namespace

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_GIF
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65535
#define STBI_MALLOC limited_malloc
#define STBI_REALLOC limited_realloc
#define STBI_FREE std::free
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image.h>
#pragma GCC diagnostic pop

namespace lacuna {
namespace {

using File = std::span<const std::uint8_t>;

/// Pixels [height, width, channels] in memory owned by stb_image.
struct Pixels {
  std::unique_ptr<std::uint8_t, void (*)(void*)> values{nullptr, stbi_image_free};
  int height = 0, width = 0, channels = 0;
};

int length_of(File file) { return static_cast<int>(file.size()); }
[[noreturn]] void reject_damaged() { reject_sample("the image cannot be decoded: {}", stbi_failure_reason()); }

Pixels load(File file) {
  Pixels all;
  all.values.reset(stbi_load_from_memory(file.data(), length_of(file), &all.width, &all.height, &all.channels, 0));
  if (all.values == nullptr) reject_damaged();
  return all;
}

/// Decodes the whole file when its rows are read.
class StbReader final : public ImageReader {
 public:
  StbReader(File file, Pixels (*decode)(File)) : file_(file), decode_(decode) {
    if (file.size() > std::numeric_limits<int>::max())
      reject_sample("the file has {} bytes, expected less than 2 GiB", file.size());
    most_bytes = std::size_t{1} << 20;
    int width = 0, height = 0, channels = 0;
    if (stbi_info_from_memory(file.data(), length_of(file), &width, &height, &channels) == 0) reject_damaged();
    set_size(height, width);
  }

  /// A GIF takes pixels of four bytes, as many for the background, one byte a pixel that marks them, and a copy of the
  /// file.
  std::int64_t held_bytes() const override { return height() * width() * 9 + std::ssize(file_); }

  void read(const ImageBox& box, const RowConsumer& consumer) override {
    most_bytes = static_cast<std::size_t>(height() * width()) * 16 + (std::size_t{1} << 20);
    const Pixels all = decode_(file_);
    if (all.width != width() || all.height != height())
      reject_sample("the image has {}×{} pixels, and its header says {}×{}", all.width, all.height, width(), height());
    std::vector<std::uint8_t> row(static_cast<std::size_t>(box.width + 1) * 4);  // [width + 1, 4]
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      const std::uint8_t* from = all.values.get() + (y * all.width + box.left) * all.channels;
      for (std::int64_t x = 0; x < box.width; ++x, from += all.channels) {
        std::uint8_t* const to = row.data() + x * 4;
        if (all.channels >= 3)
          std::copy_n(from, 3, to);
        else
          std::fill_n(to, 3, from[0]);
      }
      consumer(row.data());
    }
  }

 private:
  File file_;
  Pixels (*decode_)(File);
};

/// Removes the transparency flag first, so that all pixels have a colour. Checks that the file is complete, because
/// stb_image accepts a truncated one.
Pixels load_gif(File file) {
  std::vector<std::uint8_t> opaque(file.size() + 16);  // padding, so that header offsets are in range
  std::ranges::copy(file, opaque.begin());
  std::size_t at = 6;
  const auto skip_table = [&](std::size_t flags) {
    if ((opaque[flags] & 0x80U) != 0) at += std::size_t{3} << ((opaque[flags] & 7U) + 1);
  };
  const auto skip_blocks = [&] {  // each block begins with its size; 0 ends the list
    while (at < file.size() && opaque[at] != 0) at += opaque[at] + std::size_t{1};
    if (at >= file.size()) reject_sample("damaged GIF: the file is cut off");
    ++at;
  };
  at += 7;
  skip_table(10);
  while (at < file.size() && opaque[at] == 0x21) {  // extension block
    if (opaque[at + 1] == 0xf9) opaque[at + 3] &= 0xfeU;
    at += 2;
    skip_blocks();
  }
  if (at >= file.size()) reject_sample("damaged GIF: the file is cut off");
  const std::size_t descriptor = at;
  at += 10;
  skip_table(descriptor + 9);
  ++at;  // LZW code size
  skip_blocks();
  opaque.resize(file.size());
  return load(opaque);
}

/// Rejects Huffman tables of more than 256 codes, for which stb_image writes out of bounds.
void check_huffman_tables(File file) {
  for (std::size_t at = 0; at + 4 <= file.size(); ++at) {
    if (file[at] != 0xff || file[at + 1] != 0xc4) continue;
    std::int64_t left = file[at + 2] * 256 + file[at + 3] - 2;
    for (std::size_t table = at + 4; left > 0 && table + 1 < file.size();) {
      const File counts = file.subspan(table + 1, std::min<std::size_t>(16, file.size() - table - 1));
      const std::int64_t codes = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
      if (codes > 256) reject_sample("damaged JPEG: a Huffman table has {} codes", codes);
      left -= 17 + codes;
      table += static_cast<std::size_t>(17 + codes);
    }
  }
}

Pixels load_jpeg(File file) {
  constexpr std::size_t trailer = 65536;
  const File end = file.last(std::min(file.size(), trailer));
  constexpr std::array<std::uint8_t, 2> end_of_image{0xff, 0xd9};
  if (std::search(end.begin(), end.end(), end_of_image.begin(), end_of_image.end()) == end.end())
    reject_sample("damaged JPEG: the file is cut off");
  return load(file);
}

}  // namespace

std::unique_ptr<ImageReader> open_gif(File file) { return std::make_unique<StbReader>(file, load_gif); }
std::unique_ptr<ImageReader> open_jpeg_with_stb(File file) {
  check_huffman_tables(file);
  return std::make_unique<StbReader>(file, load_jpeg);
}

}  // namespace lacuna
