// Elements of tensors as kernels on cuda read and write them, eight at a time, for .cu files. A saved tensor may be
// codes, which are decoded in registers.
#pragma once

#include "core/block.h"
#include "ops/cuda/saved_values.h"

namespace lacuna::cuda {

struct Eight {
  float values[8];
  LACUNA_DEVICE float& operator[](int i) { return values[i]; }
  LACUNA_DEVICE float operator[](int i) const { return values[i]; }
};

// In all that follows `first` is a multiple of 8. Elements from `count` on read as 0 and are not written. `at` and
// `set` take elements of the whole tensor, `at_row` and `set_row` those of a row of `width` elements.

/// Elements of T as they lie.
template <class T>
class Kept {
 public:
  LACUNA_HOST_DEVICE Kept(const void* values, std::int64_t count)
      : values_(static_cast<const T*>(values)), count_(count), in_packs_(is_aligned(values_)) {}

  LACUNA_DEVICE Eight at(std::int64_t first) const {
    return load(values_ + first, count_ - first, in_packs_ && first + 8 <= count_);
  }
  LACUNA_DEVICE Eight at_row(std::int64_t row, std::int64_t width, std::int64_t first) const {
    return load(values_ + row * width + first, width - first, in_packs_ && width % 8 == 0);
  }

 private:
  LACUNA_DEVICE static Eight load(const T* from, std::int64_t left, bool in_packs) {
    constexpr int n = pack_size<T>;
    Eight eight;
    if (in_packs) {
#pragma unroll
      for (int p = 0; p < 8 / n; ++p) {
        const auto pack = load_pack<n>(from + p * n);
#pragma unroll
        for (int i = 0; i < n; ++i) eight[p * n + i] = to_compute(pack[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) eight[i] = i < left ? to_compute(from[i]) : 0.0F;
    }
    return eight;
  }

  const T* values_;
  std::int64_t count_;
  bool in_packs_;
};

/// Where results go. A kernel that adds to what is there, or comes back to it, reads it with `at`.
template <class T>
class Written {
 public:
  LACUNA_HOST_DEVICE Written(void* values, std::int64_t count)
      : values_(static_cast<T*>(values)), count_(count), in_packs_(is_aligned(values_)) {}

  LACUNA_DEVICE Eight at(std::int64_t first) const { return Kept<T>(values_, count_).at(first); }
  LACUNA_DEVICE Eight at_row(std::int64_t row, std::int64_t width, std::int64_t first) const {
    return Kept<T>(values_, count_).at_row(row, width, first);
  }
  LACUNA_DEVICE void set(std::int64_t first, const Eight& eight) const {
    store(values_ + first, count_ - first, in_packs_ && first + 8 <= count_, eight);
  }
  LACUNA_DEVICE void set_row(std::int64_t row, std::int64_t width, std::int64_t first, const Eight& eight) const {
    store(values_ + row * width + first, width - first, in_packs_ && width % 8 == 0, eight);
  }

 private:
  LACUNA_DEVICE static void store(T* to, std::int64_t left, bool in_packs, const Eight& eight) {
    constexpr int n = pack_size<T>;
    if (in_packs) {
#pragma unroll
      for (int p = 0; p < 8 / n; ++p) {
        Pack<T, n> pack;
#pragma unroll
        for (int i = 0; i < n; ++i) pack[i] = static_cast<T>(eight[p * n + i]);
        store_pack(to + p * n, pack);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i < left) to[i] = static_cast<T>(eight[i]);
    }
  }

  T* values_;
  std::int64_t count_;
  bool in_packs_;
};

/// Affine codes of 1 to 8 bits of a tensor of T in groups of consecutive elements. One kernel for all numbers of bits:
/// which planes there are is the same for all threads.
template <class T>
class Coded {
 public:
  Coded(const SavedValues& saved, std::int64_t count)
      : codes_(saved.codes),
        params_(saved.params),
        count_(count),
        group_(saved.group),
        mixed_(mixed(mixed(saved.key))),
        bits_(saved.bits),
        dithered_(saved.dithered) {}

  /// `width` is a multiple of 8.
  LACUNA_DEVICE Eight at_row(std::int64_t row, std::int64_t width, std::int64_t first) const {
    return at(row * width + first);
  }
  LACUNA_DEVICE Eight at(std::int64_t first) const {
    const std::int64_t block = first / block_elements, left = count_ - block * block_elements;
    const int elements = left < block_elements ? static_cast<int>(left) : block_elements;
    const int place = static_cast<int>(first % block_elements);
    const std::uint8_t* plane = codes_ + block * (block_elements / 8 * bits_);
    std::uint32_t code[8] = {};
    int shift = 0;
#pragma unroll
    for (int width = 8; width > 0; width /= 2) {
      if ((bits_ & width) == 0) continue;
      const int bytes = (elements * width + 7) / 8;
      const std::uint32_t mask = (1U << width) - 1;
      if (elements == block_elements) {  // eight codes lie side by side, at a multiple of 8
        const auto pack = load_pack<8>(plane + place % bytes);
        const int part = place / bytes * width;
#pragma unroll
        for (int i = 0; i < 8; ++i) code[i] |= (static_cast<std::uint32_t>(pack[i]) >> part & mask) << shift;
      } else {
        for (int i = 0; i < 8 && place + i < elements; ++i)
          code[i] |= (static_cast<std::uint32_t>(plane[(place + i) % bytes]) >> ((place + i) / bytes * width) & mask)
                     << shift;
      }
      plane += bytes;
      shift += width;
    }
    const std::uint8_t* const group = params_ + first / group_ * 4;
    const float stored = std::bit_cast<float>((group[0] | static_cast<std::uint32_t>(group[1]) << 8) << 16);
    const auto units = static_cast<std::int16_t>(group[2] | group[3] << 8);
    const float unit = 1.0F / static_cast<float>(1 << (8 - bits_));
    const float step = stored < 0 ? 0.0F : stored;  // negative: a constant group
    const float origin = (stored < 0 ? -stored : stored) * (static_cast<float>(units) * unit);
    Eight eight;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float steps = static_cast<float>(code[i]);
      if (dithered_)
        steps = (static_cast<float>(static_cast<std::int32_t>(code[i] << 16) - draw(first + i)) + 32767.5F) *
                (1.0F / 65536);
      eight[i] = first + i < count_ ? to_compute(static_cast<T>(steps * step + origin)) : 0.0F;
    }
    return eight;
  }

 private:
  static constexpr int block_elements = 128, words_of_block = 16;

  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  LACUNA_DEVICE std::uint32_t word(std::uint32_t counter) const {
    std::uint32_t x = counter ^ static_cast<std::uint32_t>(mixed_);
    x = (x ^ (x >> 16)) * 0x7feb352dU;
    x = (x ^ (x >> 15) ^ static_cast<std::uint32_t>(mixed_ >> 32)) * 0x846ca68bU;
    return x ^ (x >> 16);
  }
  /// The draw that the element was rounded with.
  LACUNA_DEVICE std::int32_t draw(std::int64_t element) const {
    const auto first = static_cast<std::uint32_t>(element / block_elements * words_of_block);
    const int place = static_cast<int>(element % block_elements), set = place / 32, own = place % 32 / 2;
    std::uint32_t w = word(first + static_cast<std::uint32_t>(own));
    if (set > 0) w ^= word(first + static_cast<std::uint32_t>((own + set) % words_of_block));
    return static_cast<std::int32_t>(w >> (place % 2 * 16) & 0xffffU);
  }

  const std::uint8_t *codes_, *params_;
  std::int64_t count_, group_;
  std::uint64_t mixed_;
  int bits_;
  bool dithered_;
};

/// Calls `f` with Kept<T> or Coded<T>, as the tensor is held.
template <class T, class F>
void with_saved_values(const SavedValues& saved, std::int64_t count, const F& f) {
  if (saved.values != nullptr || count == 0)
    f(Kept<T>(saved.values, count));
  else
    f(Coded<T>(saved, count));
}

}  // namespace lacuna::cuda
