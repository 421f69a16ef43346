#include "core/block.h"
#include "ops/convolution/phases_cuda.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

/// A thread has eight channels of a pixel of the phases.
template <class T, bool splits>
struct Move {
  static constexpr int threads = 256;
  Phases phases;
  std::int64_t channels;
  const T* from;
  T* to;
  bool add;
  LACUNA_DEVICE void operator()(const Block<Move>& block) const {
    const Phases& p = phases;
    const std::int64_t units = (channels + 7) / 8, pixel = block.global_thread() / units;
    if (pixel >= p.count() * p.rows() * p.columns()) return;
    const std::int64_t c = block.global_thread() % units * 8, line = pixel / p.columns(), phase = line / p.rows();
    const std::int64_t h = phase / p.across() % p.down() + line % p.rows() * p.dilation;
    const std::int64_t w = phase % p.across() + pixel % p.columns() * p.dilation;
    const bool inside = h < p.height && w < p.width;
    const std::int64_t image = phase / (p.down() * p.across()), place = (image * p.height + h) * p.width + w;
    const Written<T> out(to, 0);  // rows take no count
    const Kept<T> in(from, 0);
    if (splits) {
      out.set_row(pixel, channels, c, inside ? in.at_row(place, channels, c) : Eight{});
    } else if (inside) {
      if (add)
        out.add_row(place, channels, c, in.at_row(pixel, channels, c));
      else
        out.set_row(place, channels, c, in.at_row(pixel, channels, c));
    }
  }
};

template <bool splits>
void move(Stream stream, DType type, const Phases& phases, std::int64_t channels, const void* from, void* to,
          bool add) {
  const std::int64_t units = phases.count() * phases.rows() * phases.columns() * divide_up(channels, 8);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    using Kernel = Move<T, splits>;
    run(stream, divide_up(units, Kernel::threads),
        Kernel{phases, channels, static_cast<const T*>(from), static_cast<T*>(to), add});
  });
}

}  // namespace

void split_phases(Stream stream, DType type, const Phases& phases, std::int64_t channels, const void* images,
                  void* split) {
  move<true>(stream, type, phases, channels, images, split, false);
}

void join_phases(Stream stream, DType type, const Phases& phases, std::int64_t channels, const void* split,
                 void* images, bool add) {
  move<false>(stream, type, phases, channels, split, images, add);
}

}  // namespace lacuna::cuda
