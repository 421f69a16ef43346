#include "core/block.h"
#include "core/tensor_cuda.h"

#include <type_traits>

namespace lacuna::cuda {
namespace {

template <class T>
struct Fill {
  static constexpr int threads = 256;
  T* to;
  std::int64_t count;
  T element;
  LACUNA_DEVICE void operator()(const Block<Fill>& block) const {
    if (const std::int64_t i = block.global_thread(); i < count) to[i] = element;
  }
};
template <class T>
void fill_with(Stream stream, void* to, std::int64_t count, std::uint64_t element) {
  run(stream, divide_up(count, Fill<T>::threads),
      Fill<T>{.to = static_cast<T*>(to), .count = count, .element = static_cast<T>(element)});
}

/// Each thread converts eight elements.
template <class From, class To>
struct Convert {
  static constexpr int threads = 256;
  const From* from;
  To* to;
  std::int64_t count;
  bool in_packs;

  LACUNA_DEVICE static To converted(From value) {
    if constexpr (std::is_integral_v<From> && std::is_integral_v<To>)
      return static_cast<To>(value);
    else
      return static_cast<To>(static_cast<float>(to_compute(value)));
  }
  LACUNA_DEVICE void operator()(const Block<Convert>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (in_packs && first + 8 <= count) {
      constexpr int in = sizeof(From) == 1 ? 8 : pack_size<From>, out = pack_size<To>;
      To values[8];
#pragma unroll
      for (int p = 0; p < 8; p += in) {
        const auto pack = load_pack<in>(from + first + p);
#pragma unroll
        for (int i = 0; i < in; ++i) values[p + i] = converted(pack[i]);
      }
#pragma unroll
      for (int p = 0; p < 8; p += out) {
        Pack<To, out> pack;
#pragma unroll
        for (int i = 0; i < out; ++i) pack[i] = values[p + i];
        store_pack(to + first + p, pack);
      }
      return;
    }
    for (std::int64_t i = first; i < first + 8 && i < count; ++i) to[i] = converted(from[i]);
  }
};
template <class From>
void convert_from(Stream stream, std::int64_t count, const void* from, void* to, DType to_type) {
  const auto into = [&]<class To>(Type<To>) {
    run(stream, divide_up(count, Convert<From, To>::threads * 8),
        Convert<From, To>{.from = static_cast<const From*>(from),
                          .to = static_cast<To*>(to),
                          .count = count,
                          .in_packs = is_aligned(from) && is_aligned(to)});
  };
  if constexpr (std::is_same_v<From, std::int64_t>)
    if (to_type == DType::i32) return into(Type<std::int32_t>{});  // lengths, as cuDNN reads them
  with_cuda_type(to_type, into);
}

}  // namespace

void fill(Stream stream, void* to, std::int64_t count, int size, std::uint64_t element) {
  switch (size) {
    case 1:
      return fill_with<std::uint8_t>(stream, to, count, element);
    case 2:
      return fill_with<std::uint16_t>(stream, to, count, element);
    case 4:
      return fill_with<std::uint32_t>(stream, to, count, element);
    default:
      return fill_with<std::uint64_t>(stream, to, count, element);
  }
}

void convert(Stream stream, std::int64_t count, const void* from, DType from_type, void* to, DType to_type) {
  switch (from_type) {
    case DType::u8:
      return convert_from<std::uint8_t>(stream, count, from, to, to_type);
    case DType::i32:
      return convert_from<std::int32_t>(stream, count, from, to, to_type);
    case DType::i64:
      return convert_from<std::int64_t>(stream, count, from, to, to_type);
    default:
      with_cuda_type(from_type, [&]<class From>(Type<From>) { convert_from<From>(stream, count, from, to, to_type); });
  }
}

const void* any_kernel() {
#ifdef __CUDACC__
  return reinterpret_cast<const void*>(&entry<Fill<std::uint32_t>>);
#else
  return nullptr;
#endif
}

}  // namespace lacuna::cuda
