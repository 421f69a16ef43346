#include "core/coded/maps.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

std::array<float, 16> int4_values() {
  std::array<float, 16> values{};  // code 7 is 0, as in nf4; encoding never writes 15
  for (int i = 0; i < 15; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i - 7) / 7.0F;
  values[15] = 1.0F;
  return values;
}

/// Place k of n + 1 even ones from 0.1 to 1 as torch.linspace computes it in f32: from the nearer end, rounded once.
float place(int k, int n) {
  const float step = (1.0F - 0.1F) / static_cast<float>(n);
  if (k < (n + 1) / 2) return std::fma(step, static_cast<float>(k), 0.1F);
  return std::fma(-step, static_cast<float>(n - k), 1.0F);
}

std::array<float, 256> dynamic_map() {
  std::array<float, 256> map{};
  std::size_t count = 0;
  for (int i = 0; i < 7; ++i) {
    const auto power = static_cast<float>(std::pow(10.0, i - 6));
    for (int k = 0, n = 1 << i; k < n; ++k) {
      const float value = power * ((place(k, n) + place(k + 1, n)) / 2);
      map[count++] = value;
      map[count++] = -value;
    }
  }
  map[count++] = 0;
  map[count++] = 1;
  std::ranges::sort(map);
  return map;
}

}  // namespace

const std::array<float, 16>& values_of(WeightCode code) {
  static constexpr std::array nf4{-1.0F,
                                  -0.6961928009986877F,
                                  -0.5250730514526367F,
                                  -0.39491748809814453F,
                                  -0.28444138169288635F,
                                  -0.18477343022823334F,
                                  -0.09105003625154495F,
                                  0.0F,
                                  0.07958029955625534F,
                                  0.16093020141124725F,
                                  0.24611230194568634F,
                                  0.33791524171829224F,
                                  0.44070982933044434F,
                                  0.5626170039176941F,
                                  0.7229568362236023F,
                                  1.0F};
  static constexpr std::array fp4 = [] {
    std::array<float, 16> values{
        0.0F, 0.0052083334885537624F, 0.6666666865348816F, 1.0F, 0.3333333432674408F, 0.5F, 0.1666666716337204F, 0.25F};
    for (std::size_t i = 0; i < 8; ++i) values[8 + i] = i == 0 ? 0.0F : -values[i];
    return values;
  }();
  static const std::array<float, 16> int4 = int4_values();
  return code == WeightCode::nf4 ? nf4 : code == WeightCode::fp4 ? fp4 : int4;
}

const std::array<float, 256>& nested_map() {
  static const std::array<float, 256> map = dynamic_map();
  return map;
}

}  // namespace lacuna
