#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/pixels/pixels_cuda.h"

namespace lacuna::cuda {
namespace {

/// A block has a part of one image, a thread eight elements, so that places take 32-bit arithmetic.
template <class T>
struct NormalizePixels {
  static constexpr int threads = 256, each = 8;
  PixelImages images;
  Written<T> y;
  std::uint32_t size, parts;  // elements and blocks of an image
  LACUNA_DEVICE void operator()(const Block<NormalizePixels>& block) const {
    const auto index = static_cast<std::uint32_t>(block.index()), n = index / parts;
    const std::uint32_t first = (index % parts * threads + static_cast<std::uint32_t>(block.thread())) * each;
    if (first >= size) return;
    const auto channels = static_cast<std::uint32_t>(images.channels), width = static_cast<std::uint32_t>(images.width);
    const std::uint32_t pixel = first / channels;
    std::uint32_t channel = first % channels, row = pixel / width, column = pixel % width;
    Eight eight{};
#pragma unroll
    for (std::uint32_t i = 0; i < each; ++i) {
      if (first + i < size) eight[static_cast<int>(i)] = images.at(n, first + i, row, column, channel);
      if (++channel < channels) continue;
      channel = 0;
      if (++column < width) continue;
      column = 0;
      ++row;
    }
    const std::int64_t to = static_cast<std::int64_t>(n) * size + first;
    if (size % each == 0) return y.set(to, eight);
#pragma unroll
    for (std::uint32_t i = 0; i < each; ++i)
      if (first + i < size) y.set_one(to + i, eight[static_cast<int>(i)]);
  }
};

}  // namespace

void normalize_pixels(Stream stream, DType type, const PixelImages& images, void* y) {
  const std::int64_t size = images.height * images.width * images.channels;
  if (size >> 32 != 0) throw_launch_failed("an image has 2^32 elements or more");
  with_cuda_type(type, [&]<class T>(Type<T>) {
    using Kernel = NormalizePixels<T>;
    const std::int64_t parts = divide_up(size, Kernel::threads * Kernel::each);
    run(stream, images.samples * parts,
        Kernel{.images = images,
               .y = {y, images.samples * size},
               .size = static_cast<std::uint32_t>(size),
               .parts = static_cast<std::uint32_t>(parts)});
  });
}

}  // namespace lacuna::cuda
