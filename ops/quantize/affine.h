// Activations in 1 to 8 bits an element: affine codes by groups. docs/codes.md describes the format and its error.
#pragma once

#include "core/tensor.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace lacuna::quant {

enum class Rounding : std::uint8_t {
  nearest,
  stochastic,  // up with the probability of what is left over: the mean over many keys is the value itself
  dithered,    // the same, and what was drawn is taken off again when decoding: an error of the same size wherever the
               // value lies between two codes, of half the variance on average (subtractive dither, Schuchman 1964)
  hadamard,    // the group is turned at random, coded to nearest by the steps that err least for a normal distribution,
               // and scaled so that no mean error is left (Vargaftik et al. 2022): ops/quantize/rotated.h
};

inline constexpr std::int64_t max_hadamard_group = 1024;

/// Which elements share a range. `run`: `size` consecutive elements; the last group may be shorter. `column`: columns
/// [k·size, (k+1)·size) of every row, a row being the last extent, or the last few; the last group may be narrower.
struct Grouping {
  enum class Kind : std::uint8_t { run, column };
  Kind kind = Kind::run;
  std::int64_t size = 256;  // 1 or more; rotated: at most max_hadamard_group
  int extents = 1;          // of `column`: how many of the last are a row
  bool operator==(const Grouping&) const = default;
};

struct QuantConfig {
  int bits = 8;  // an element: 1 to 8
  Grouping grouping{};
  Rounding rounding = Rounding::stochastic;
  bool operator==(const QuantConfig&) const = default;
};

/// The least and the greatest value of a group.
struct Range {
  float min = 0, max = 0;
};

/// A coded tensor.
struct QuantizedTensor {
  QuantConfig coding;
  Shape shape;  // of the original
  DType dtype = DType::f32;
  Tensor bytes;           // u8 [coded_bytes]: the codes, 4 bytes a group, the coded means of rotated ones
  std::uint64_t key = 0;  // of the draws, which dithered codes decode with
};

std::int64_t group_count(const Shape& shape, const Grouping& grouping);
/// What codes of so many elements take, without their ranges.
std::int64_t code_bytes(std::int64_t elements, int bits);
/// Everything that a coded tensor keeps: codes, steps and origins, means.
std::int64_t coded_bytes(const Shape& shape, const QuantConfig& coding);
/// The same without the codes of its elements.
std::int64_t range_bytes(const Shape& shape, const QuantConfig& coding);

/// Whether, of the ways to code runs that leave no bias, it is rotated codes that err least with so many bits.
bool uses_hadamard(int bits);
/// The variance of those codes' errors, relative to that of what they stand for, where that is normally distributed: of
/// dithered codes of 256 values, which reach to 2.85 standard deviations on either side.
double relative_error(int bits);
/// The way that errs least: rotated where that `uses_hadamard` and groups are runs, dithered otherwise.
QuantConfig least_error(int bits, const Grouping& grouping);

/// QuantizedTensor x, of any floating type and shape. Draws come from `key` and the element's number, nothing else: the
/// caller hashes seed, step and slot into it. Each element decodes to within half a step of its value, a whole one with
/// `stochastic`; a step is the group's range divided by 2^bits - 1, and at most 1.4 % more (1.6 % at 1 bit), as long
/// as the least value is within 128 ranges of zero. `rotated` bounds the whole group's error instead, on average by
/// relative_error(bits) of its variance about its mean or its channels' means, as long as the group's mean is within 64
/// standard deviations of zero: it is held in bf16. A group that holds a NaN or an infinity
/// decodes wholly to NaN. The bytes are on x's device, their purpose the current AllocationScope's. An error where
/// `bits` or the group's size is out of bounds (`rotated`: 1 to 3 bits, runs of at most 1024) or x is not floating.
QuantizedTensor encode(const Tensor& x, const QuantConfig& coding, std::uint64_t key);
/// The same with ranges known beforehand, [groups], finite: column groups take one pass instead of two. Values outside
/// saturate. `seen` [groups], or empty, gets the ranges that x really has, over its finite values; the entry of a group
/// without any stays as it is.
QuantizedTensor encode(const Tensor& x, const QuantConfig& coding, std::uint64_t key, std::span<const Range> ranges,
                       std::span<Range> seen);

/// Elements [begin, end) of the original, in memory order, into `out`: of any shape with end - begin elements, the
/// original's type, the codes' device.
void decode(const QuantizedTensor& codes, std::int64_t begin, std::int64_t end, const Tensor& out);
/// What decoding `count` consecutive elements takes besides, wherever they lie: room for the means of rotated codes,
/// for as many samples as these could touch, f32 [samples, C]; for nothing of others.
Tensor decoding_room(const QuantizedTensor& codes, std::int64_t count);
/// Decodes elements [begin, end) of the original into `out`, of its type, on the calling thread: several may at once.
/// Prepared once for many ranges, and without checks: they lie within the original, whose bytes outlive it. No tensor
/// is allocated. Rotated groups are decoded whole, whatever of them is asked for.
using RangeDecoder = std::function<void(std::int64_t begin, std::int64_t end, std::byte* out)>;
RangeDecoder range_decoder(const QuantizedTensor& codes);

}  // namespace lacuna::quant
