#include "ops/shapes/patch_merging_cuda.h"

#include "ops/cuda/copy_units.h"

namespace lacuna::cuda {
namespace {

/// A thread has a unit of `merged`.
template <class Unit>
struct Merge {
  static constexpr int threads = 256;
  MergePatches what;  // `pixel` in units
  LACUNA_DEVICE void operator()(const Block<Merge>& block) const {
    const std::int64_t rows = (what.height + 1) / 2, columns = (what.width + 1) / 2, at = block.global_thread();
    if (at >= what.images * rows * columns * 4 * what.pixel) return;
    const std::int64_t piece = at / what.pixel, patch = piece / 4, i = piece % 4;
    const std::int64_t y = patch / columns % rows * 2 + i % 2, x = patch % columns * 2 + i / 2;
    const bool inside = y < what.height && x < what.width;
    auto* const merged = static_cast<Unit*>(what.merged) + at;
    auto* const image = static_cast<Unit*>(what.image) +
                        ((patch / columns / rows * what.height + y) * what.width + x) * what.pixel + at % what.pixel;
    if (!what.splits)
      *merged = inside ? *image : Unit{};
    else if (inside)
      *image = *merged;
  }
};

}  // namespace

void merge_patches(Stream stream, const MergePatches& what) {
  with_copy_unit(address(what.image) | address(what.merged) | static_cast<std::uint64_t>(what.pixel),
                 [&]<class Unit>(Type<Unit>) {
                   MergePatches in_units = what;
                   in_units.pixel = what.pixel / static_cast<std::int64_t>(sizeof(Unit));
                   const std::int64_t pieces = what.images * ((what.height + 1) / 2) * ((what.width + 1) / 2) * 4;
                   run(stream, divide_up(pieces * in_units.pixel, Merge<Unit>::threads), Merge<Unit>{in_units});
                 });
}

}  // namespace lacuna::cuda
