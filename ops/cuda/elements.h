// Elements of tensors as kernels on cuda read and write them, eight at a time, for .cu files. A saved tensor may be
// codes, which are decoded in registers.
#pragma once

#include "core/block.h"
#include "ops/cuda/codes.h"
#include "ops/cuda/divisor.h"
#include "ops/cuda/saved_values.h"

namespace lacuna::cuda {

struct Eight {
  float values[8];
  LACUNA_DEVICE float& operator[](int i) { return values[i]; }
  LACUNA_DEVICE float operator[](int i) const { return values[i]; }
};

/// 16 bytes as floats, and back. Two numbers of bf16 take an instruction together.
template <class T, int n>
LACUNA_DEVICE inline void unpack(const Pack<T, n>& pack, float* values) {
  if constexpr (std::is_same_v<T, bf16>) {
    const auto words = std::bit_cast<Pack<std::uint32_t, n / 2>>(pack);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      values[2 * i] = std::bit_cast<float>(words[i] << 16);
      values[2 * i + 1] = std::bit_cast<float>(words[i] & 0xffff0000U);
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) values[i] = to_compute(pack[i]);
  }
}
LACUNA_DEVICE inline std::uint32_t pair_of_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return bf16(low).bits | static_cast<std::uint32_t>(bf16(high).bits) << 16;
#endif
}
template <class T>
LACUNA_DEVICE inline Pack<T, pack_size<T>> packed(const float* values) {
  constexpr int n = pack_size<T>;
  if constexpr (std::is_same_v<T, bf16>) {
    Pack<std::uint32_t, n / 2> words;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) words[i] = pair_of_bf16(values[2 * i], values[2 * i + 1]);
    return std::bit_cast<Pack<T, n>>(words);
  } else {
    Pack<T, n> pack;
#pragma unroll
    for (int i = 0; i < n; ++i) pack[i] = static_cast<T>(values[i]);
    return pack;
  }
}

/// Values as if they had been stored in T.
template <class T>
LACUNA_DEVICE inline Eight rounded_to(Eight values) {
  constexpr int n = pack_size<T>;
#pragma unroll
  for (int p = 0; p < 8 / n; ++p) unpack(packed<T>(values.values + p * n), values.values + p * n);
  return values;
}

/// Eight elements as they lie. Unlike an Eight, it can be loaded long before a thread waits for it.
template <class T>
struct RawEight {
  static constexpr int n = pack_size<T>;
  Pack<T, n> packs[8 / n];
  LACUNA_DEVICE Eight values() const {
    Eight eight;
#pragma unroll
    for (int p = 0; p < 8 / n; ++p) unpack(packs[p], eight.values + p * n);
    return eight;
  }
};
/// Eight elements at an address that is aligned to 16.
template <class T>
LACUNA_DEVICE inline RawEight<T> load_raw(const T* from) {
  constexpr int n = pack_size<T>;
  RawEight<T> raw;
#pragma unroll
  for (int p = 0; p < 8 / n; ++p) raw.packs[p] = load_pack<n>(from + p * n);
  return raw;
}
template <class T>
LACUNA_DEVICE inline Eight load_eight(const T* from) {
  return load_raw(from).values();
}
template <class T>
LACUNA_DEVICE inline void store_eight(T* to, const Eight& eight) {
  constexpr int n = pack_size<T>;
#pragma unroll
  for (int p = 0; p < 8 / n; ++p) store_to_global(to + p * n, packed<T>(eight.values + p * n));
}

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
    return load(values_ + row * width + first, width - first, in_packs(width));
  }
  /// Any one element.
  LACUNA_DEVICE float one(std::int64_t element) const { return to_compute(values_[element]); }
  /// Whether pack_at_row() reads rows of `width` elements.
  LACUNA_DEVICE bool in_packs(std::int64_t width) const { return in_packs_ && width % 8 == 0; }
  /// at_row() without a branch, so that loads of several rows are under way at once.
  LACUNA_DEVICE Eight pack_at_row(std::int64_t row, std::int64_t width, std::int64_t first) const {
    return load_eight(values_ + row * width + first);
  }
  /// at_row() that does not wait.
  using Raw = RawEight<T>;
  LACUNA_DEVICE Raw raw_at_row(std::int64_t row, std::int64_t width, std::int64_t first) const {
    if (in_packs(width)) return load_raw(values_ + row * width + first);
    Raw raw{};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (first + i < width) raw.packs[i / Raw::n][i % Raw::n] = values_[row * width + first + i];
    return raw;
  }

 private:
  LACUNA_DEVICE static Eight load(const T* from, std::int64_t left, bool in_packs) {
    if (in_packs) return load_eight(from);
    Eight eight;
    const int here = left < 8 ? static_cast<int>(left) : 8;
#pragma unroll
    for (int i = 0; i < 8; ++i) eight[i] = i < here ? to_compute(from[i]) : 0.0F;
    return eight;
  }

  const T* values_;
  std::int64_t count_;
  bool in_packs_;
};

/// Results. A kernel that adds to them reads them with `at`.
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
  /// Any one element.
  LACUNA_DEVICE void set_one(std::int64_t element, float value) const { values_[element] = static_cast<T>(value); }
  /// Row elements become old plus new.
  LACUNA_DEVICE void add_row(std::int64_t row, std::int64_t width, std::int64_t first, Eight eight) const {
    const Eight old = at_row(row, width, first);
#pragma unroll
    for (int i = 0; i < 8; ++i) eight[i] += old[i];
    set_row(row, width, first, eight);
  }
  LACUNA_DEVICE void set_row(std::int64_t row, std::int64_t width, std::int64_t first, const Eight& eight) const {
    store(values_ + row * width + first, width - first, in_packs_ && width % 8 == 0, eight);
  }

 private:
  LACUNA_DEVICE static void store(T* to, std::int64_t left, bool in_packs, const Eight& eight) {
    if (in_packs) return store_eight(to, eight);
    const int here = left < 8 ? static_cast<int>(left) : 8;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < here) to[i] = static_cast<T>(eight[i]);
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
      : codes_(saved.codes, count, saved.bits),
        params_(saved.params),
        group_(saved.group),
        key_(saved.key),
        dithered_(saved.dithered) {}

  /// `width` is a multiple of 8.
  LACUNA_DEVICE Eight at_row(std::int64_t row, std::int64_t width, std::int64_t first) const {
    return at(row * width + first);
  }
  struct Raw {
    Eight eight;
    LACUNA_DEVICE Eight values() const { return eight; }
  };
  LACUNA_DEVICE Raw raw_at_row(std::int64_t row, std::int64_t width, std::int64_t first) const {
    return {at_row(row, width, first)};
  }
  LACUNA_DEVICE Eight at(std::int64_t first) const {
    Eight eight;
    read_codes(codes_, first, key_, dithered_, eight.values);
    decode<T>(DecodingLine(params_ + group_.quotient(first) * 4, codes_.bits, dithered_), eight.values);
    eight = rounded_to<T>(eight);
    if (first + 8 <= codes_.count) return eight;
    const auto left = static_cast<int>(codes_.count - first);
#pragma unroll
    for (int i = 0; i < 8; ++i) eight[i] = i < left ? eight[i] : 0.0F;
    return eight;
  }

 private:
  PackedCodes codes_;
  const std::uint8_t* params_;
  Divisor group_;
  MixedKey key_;
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
