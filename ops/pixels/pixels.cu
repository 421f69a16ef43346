#include "core/block.h"
#include "ops/pixels/pixels_cuda.h"

namespace lacuna::cuda {
namespace {

template <class T>
struct NormalizePixels {
  static constexpr int threads = 256;
  static constexpr int each = 4;  // elements of a thread
  PixelImages images;
  T* y;
  std::int64_t count;
  LACUNA_DEVICE void operator()(const Block<NormalizePixels>& block) const {
    const std::int64_t first = block.global_thread() * each;
    for (std::int64_t i = first; i < first + each && i < count; ++i) y[i] = static_cast<T>(images(i));
  }
};

}  // namespace

void normalize_pixels(Stream stream, DType type, const PixelImages& images, void* y) {
  const std::int64_t count = images.samples * images.height * images.width * images.channels;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    using Kernel = NormalizePixels<T>;
    run(stream, divide_up(count, Kernel::threads * Kernel::each),
        Kernel{.images = images, .y = static_cast<T*>(y), .count = count});
  });
}

}  // namespace lacuna::cuda
