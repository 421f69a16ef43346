#include "ops/cuda/copy_units.h"
#include "ops/cuda/pieces.h"

namespace lacuna::cuda {
namespace {

/// Calls `f(element of scattered, element of packed)` for the one of this thread.
template <class K, class F>
LACUNA_DEVICE inline void for_element(const Block<K>& block, const Pieces& what, const F& f) {
  const std::int64_t e = block.global_thread();
  if (e >= what.count * what.length) return;
  const std::int64_t piece = e / what.length + what.first_piece, within = e % what.length;
  const std::int64_t i = piece % what.inner, outer = piece / what.inner, o = outer % what.outer,
                     image = outer / what.outer;
  f(what.first + image * what.image_stride + o * what.outer_stride + i * what.inner_stride + within, e);
}

/// Moves units of 1 to 16 bytes.
template <class Unit, bool gathers>
struct CopyPieces {
  static constexpr int threads = 256;
  Pieces what;
  LACUNA_DEVICE void operator()(const Block<CopyPieces>& block) const {
    auto* const scattered = static_cast<Unit*>(what.scattered);
    auto* const packed = static_cast<Unit*>(what.packed);
    for_element(block, what, [&](std::int64_t in_scattered, std::int64_t in_packed) {
      if constexpr (gathers)
        packed[in_packed] = scattered[in_scattered];
      else
        scattered[in_scattered] = packed[in_packed];
    });
  }
};

template <class T>
struct AddPieces {
  static constexpr int threads = 256;
  Pieces what;
  LACUNA_DEVICE void operator()(const Block<AddPieces>& block) const {
    auto* const scattered = static_cast<T*>(what.scattered);
    const auto* const packed = static_cast<const T*>(what.packed);
    for_element(block, what, [&](std::int64_t in_scattered, std::int64_t in_packed) {
      T& sum = scattered[in_scattered];
      sum = static_cast<T>(to_compute(sum) + to_compute(packed[in_packed]));
    });
  }
};

template <bool gathers>
void copy_pieces(Stream stream, std::int64_t size, const Pieces& what) {
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::uint64_t>(size * elements); };
  const std::uint64_t multiples = address(what.scattered) | address(what.packed) | bytes(what.length) |
                                  bytes(what.first) | bytes(what.image_stride) | bytes(what.outer_stride) |
                                  bytes(what.inner_stride);
  with_copy_unit(multiples, [&]<class Unit>(Type<Unit>) {
    Pieces in_units = what;
    for (std::int64_t* const distance :
         {&in_units.length, &in_units.first, &in_units.image_stride, &in_units.outer_stride, &in_units.inner_stride})
      *distance = *distance * size / static_cast<std::int64_t>(sizeof(Unit));
    run(stream, divide_up(in_units.count * in_units.length, CopyPieces<Unit, gathers>::threads),
        CopyPieces<Unit, gathers>{in_units});
  });
}

}  // namespace

void gather_pieces(Stream stream, std::int64_t size, const Pieces& what) { copy_pieces<true>(stream, size, what); }
void scatter_pieces(Stream stream, std::int64_t size, const Pieces& what) { copy_pieces<false>(stream, size, what); }

void add_pieces(Stream stream, DType type, const Pieces& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.count * what.length, AddPieces<T>::threads), AddPieces<T>{what});
  });
}

}  // namespace lacuna::cuda
