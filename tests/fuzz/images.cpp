// Any bytes as an image file: it is refused with an Error, or decodes, whole and in part, to the same pixels.
#include "data/images/formats.h"
#include "data/images/image_reader.h"

#include <algorithm>
#include <cstdlib>

namespace {

using namespace lacuna;

using File = std::span<const std::uint8_t>;

void read_whole_and_in_part(const auto& open) {
  try {
    const std::unique_ptr<ImageReader> reader = open();
    const std::int64_t height = reader->height(), width = reader->width();
    if (height * width > 1 << 18) return;  // a header is quickly said
    std::vector<std::uint8_t> whole;       // [height, width, 4]
    reader->read({.height = height, .width = width},
                 [&](const std::uint8_t* row) { whole.insert(whole.end(), row, row + width * 4); });
    if (std::ssize(whole) != height * width * 4) std::abort();
    const ImageBox box{.top = height / 3, .left = width / 3, .height = (height + 2) / 3, .width = (width + 2) / 3};
    std::int64_t y = box.top;
    open()->read(box, [&](const std::uint8_t* row) {
      const std::uint8_t* const expected = whole.data() + (y++ * width + box.left) * 4;
      for (std::int64_t x = 0; x < box.width; ++x)
        if (!std::equal(row + x * 4, row + x * 4 + 3, expected + x * 4)) std::abort();
    });
    const std::unique_ptr<ImageReader> smaller = open();
    if (const std::int64_t factor = smaller->shrink(4); factor > 1)
      smaller->read({.height = smaller->height(), .width = smaller->width()}, [](const std::uint8_t*) {});
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const File file(bytes, size);
  read_whole_and_in_part([&] { return open_image(file); });
  read_whole_and_in_part([&] { return open_image(file, {.apply_exif = true}); });
  if (size > 3 && bytes[0] == 0xff && bytes[1] == 0xd8)
    read_whole_and_in_part([&] { return open_jpeg_with_stb(file); });
  return 0;
}
