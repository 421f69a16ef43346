// The options of ConvNeXt (Liu et al. 2022).
#pragma once

#include "models/hyper_parameters.h"

#include <optional>
#include <vector>

namespace lacuna {

struct ConvNextOptions : ImageOptions {
  std::int64_t patch_size = 4;
  std::vector<std::int64_t> depths = {3, 3, 9, 3};
  std::vector<std::int64_t> dims = {96, 192, 384, 768};
  std::int64_t kernel_size = 7;
  double layer_scale = 1e-6;
  double norm_eps = 1e-6;
  std::optional<double> head_norm_eps{};
  double drop_rate = 0, drop_path_rate = 0;

  static Fields fields();
  void check(HyperProblems& problems);
};

}  // namespace lacuna
