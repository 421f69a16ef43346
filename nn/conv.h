// Two-dimensional convolution.
#pragma once

#include "nn/linear.h"
#include "nn/module.h"

#include <optional>

namespace lacuna::nn {

struct Conv2dOptions {
  std::int64_t kernel = 1, stride = 1, padding = 0, groups = 1;
  bool bias = true;
  WeightInit init = {};
};

/// Square windows over NHWC images: [N, H, W, in] to [N, H', W', out]. weight [out, in / groups, kernel, kernel],
/// bias [out].
class Conv2d : public Module {
 public:
  Conv2d(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, const Conv2dOptions& options);
  Variable forward(Variable x) const;

 private:
  std::int64_t stride_, padding_, groups_;
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace lacuna::nn
