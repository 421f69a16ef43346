// The options of EfficientNet (Tan and Le 2019 and 2021) and of MobileNet V2 and V3 (Sandler et al. 2018, Howard et al.
// 2019), which are one family in timm.
#pragma once

#include "models/hyper_parameters.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace lacuna {

/// The next multiple of 8, not below 0.9 of `channels`.
inline std::int64_t round_to_8(double channels) {
  const auto rounded = std::max<std::int64_t>(8, static_cast<std::int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

struct EfficientNetOptions : ImageOptions {
  enum class Form : std::uint8_t { efficientnet, mobilenetv3 };
  enum class Curve : std::uint8_t { silu, hard_swish, relu, relu6 };

  /// timm's strings of the blocks, with spaces between them and ; between stages.
  std::string blocks =
      "ds_r1_k3_s1_e1_c16_se0.25; ir_r2_k3_s2_e6_c24_se0.25; ir_r2_k5_s2_e6_c40_se0.25; ir_r3_k3_s2_e6_c80_se0.25; "
      "ir_r3_k5_s1_e6_c112_se0.25; ir_r4_k5_s2_e6_c192_se0.25; ir_r1_k3_s1_e6_c320_se0.25";
  Form form = Form::efficientnet;
  Curve activation = Curve::silu;
  std::int64_t stem_size = 32, num_features = 1280;
  bool same_padding = false;
  double norm_eps = 1e-5, norm_momentum = 0.1;
  double drop_rate = 0, drop_path_rate = 0;

  static Fields fields();
  void check(HyperProblems& problems) const;
};
std::array<std::pair<std::string_view, EfficientNetOptions::Form>, 2> names_of(EfficientNetOptions::Form);
std::array<std::pair<std::string_view, EfficientNetOptions::Curve>, 4> names_of(EfficientNetOptions::Curve);

}  // namespace lacuna
