#include "core/block.h"
#include "core/tensor_cuda.h"

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

template <class From, class To>
struct Convert {
  static constexpr int threads = 256;
  const From* from;
  To* to;
  std::int64_t count;
  LACUNA_DEVICE void operator()(const Block<Convert>& block) const {
    if (const std::int64_t i = block.global_thread(); i < count)
      to[i] = static_cast<To>(static_cast<float>(to_compute(from[i])));
  }
};
template <class From>
void convert_from(Stream stream, std::int64_t count, const void* from, void* to, DType to_type) {
  with_cuda_type(to_type, [&]<class To>(Type<To>) {
    run(stream, divide_up(count, Convert<From, To>::threads),
        Convert<From, To>{.from = static_cast<const From*>(from), .to = static_cast<To*>(to), .count = count});
  });
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

}  // namespace lacuna::cuda
