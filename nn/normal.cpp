// The method of Box and Muller (1958): two numbers from two draws. f32 numbers are computed in vectors, with
// polynomials in f64. The few that might round to a different f32 than with the standard library's functions are
// computed by those. The results are bitwise the same, in a third of the time.
#include "nn/normal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <type_traits>
#include <utility>

namespace lacuna::init {
namespace {

constexpr double turn = 2.0 * std::numbers::pi;

std::pair<double, double> normal_pair(const RandomStream& stream, std::uint64_t pair) {
  const auto bits = stream.draw(pair);
  const double u = (static_cast<double>(bits[0]) + 1.0) * 0x1p-32;  // (0, 1]
  const double angle = turn * static_cast<double>(bits[1]) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// ln, sin and cos with the polynomials of fdlibm (Sun 1993: e_log.c, k_sin.c, k_cos.c), without branches.

/// ln(n / 2³²), n in [1, 2³²].
double log_of_draw(double n) {
  constexpr std::uint64_t root_of_half = 0x3FE6A09E667F3BCD;
  const auto bits = std::bit_cast<std::uint64_t>(n);
  const std::uint64_t exponent = (bits - root_of_half) >> 52;  // n = 2^exponent · m, m in [√½, √2)
  const double f = std::bit_cast<double>(bits - (exponent << 52)) - 1, s = f / (2 + f), z = s * s;
  const double r =
      z * (0x1.5555555555593p-1 +
           z * (0x1.999999997fa04p-2 +
                z * (0x1.2492494229359p-2 +
                     z * (0x1.c71c51d8e78afp-3 +
                          z * (0x1.7466496cb03dep-3 + z * (0x1.39a09d078c69fp-3 + z * 0x1.2f112df3e5244p-3))))));
  constexpr std::uint64_t integers = 0x4330000000000000;  // the bits of 2⁵²; adding n gives 2⁵² + n
  const double power = std::bit_cast<double>(exponent + integers) - 0x1p52 - 32;
  return power * std::numbers::ln2 + (f - (0.5 * f * f - s * (0.5 * f * f + r)));
}

/// sin and cos of x in [−π/4, π/4].
double sine(double x) {
  const double z = x * x;
  return x + x * z *
                 (-0x1.5555555555549p-3 +
                  z * (0x1.111111110f8a6p-7 +
                       z * (-0x1.a01a019c161d5p-13 +
                            z * (0x1.71de357b1fe7dp-19 + z * (-0x1.ae5e68a2b9cebp-26 + z * 0x1.5d93a5acfd57cp-33)))));
}
double cosine(double x) {
  const double z = x * x;
  return 1 - 0.5 * z +
         z * z *
             (0x1.555555555554cp-5 +
              z * (-0x1.6c16c16c15177p-10 +
                   z * (0x1.a01a019cb1590p-16 +
                        z * (-0x1.27e4f809c52adp-22 + z * (0x1.1ee9ebdb4b1c4p-29 + z * -0x1.8fae9be8838d4p-37)))));
}

constexpr std::size_t pairs_at_once = 256;
using Draws = std::array<std::uint32_t, pairs_at_once>;

struct Pairs {
  std::array<double, pairs_at_once> first, second;
  std::array<double, pairs_at_once> margin;  // upper bound of the difference from `normal_pair`
};

void compute(const Draws& of_radius, const Draws& of_angle, Pairs& pairs) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < pairs_at_once; ++i) {
    const double radius = std::sqrt(-2.0 * log_of_draw(static_cast<double>(of_radius[i]) + 1.0));
    const std::uint32_t quarter = (of_angle[i] + (1U << 29)) >> 30;  // the nearest quarter turn
    const auto rest = static_cast<std::int32_t>(of_angle[i] - (quarter << 30));
    const double x = static_cast<double>(rest) * (turn * 0x1p-32), s = sine(x), c = cosine(x);
    const double along = (quarter & 1U) != 0 ? s : c, across = (quarter & 1U) != 0 ? c : s;
    pairs.first[i] = radius * (((quarter + 1) & 2U) != 0 ? -along : along);
    pairs.second[i] = radius * ((quarter & 2U) != 0 ? -across : across);
    pairs.margin[i] = radius * 0x1p-45;  // the errors are below radius · 2⁻⁵⁰
  }
}

}  // namespace

template <class T>
void Normals::fill(std::int64_t begin, std::int64_t end, std::int64_t count, T* out) const {
  const auto exactly = [&](std::int64_t pair) {
    const auto drawn = normal_pair(stream, static_cast<std::uint64_t>(pair));
    for (std::int64_t i = 2 * pair; i < std::min(2 * pair + 2, count); ++i) {
      double value = i % 2 == 0 ? drawn.first : drawn.second;
      for (RandomStream again = stream; std::abs(value) > bound;) {
        ++again.step;
        value = normal_pair(again, static_cast<std::uint64_t>(i)).first;
      }
      out[i] = static_cast<T>(value * deviation);
    }
  };
  constexpr auto at_once = static_cast<std::int64_t>(pairs_at_once);
  if constexpr (std::is_same_v<T, float>)
    for (Pairs pairs; begin + at_once <= end && 2 * (begin + at_once) <= count; begin += at_once) {
      Draws of_radius, of_angle;
#pragma GCC ivdep
      for (std::size_t i = 0; i < pairs_at_once; ++i) {
        const auto draws = stream.draw(static_cast<std::uint64_t>(begin) + i);
        of_radius[i] = draws[0];
        of_angle[i] = draws[1];
      }
      compute(of_radius, of_angle, pairs);
      std::array<bool, pairs_at_once> uncertain;
      float* const to = out + 2 * begin;  // [pairs, 2]
      for (std::size_t i = 0; i < pairs_at_once; ++i) {
        const double margin = pairs.margin[i];
        const auto rounds_alike = [&](double value) {
          return static_cast<float>((value - margin) * deviation) == static_cast<float>((value + margin) * deviation) &&
                 std::abs(value) + margin <= bound;
        };
        to[2 * i] = static_cast<float>(pairs.first[i] * deviation);
        to[2 * i + 1] = static_cast<float>(pairs.second[i] * deviation);
        uncertain[i] = !rounds_alike(pairs.first[i]) || !rounds_alike(pairs.second[i]);
      }
      for (std::size_t i = 0; i < pairs_at_once; ++i)
        if (uncertain[i]) exactly(begin + static_cast<std::int64_t>(i));
    }
  for (; begin < end; ++begin) exactly(begin);
}

template void Normals::fill(std::int64_t, std::int64_t, std::int64_t, float*) const;
template void Normals::fill(std::int64_t, std::int64_t, std::int64_t, double*) const;

}  // namespace lacuna::init
