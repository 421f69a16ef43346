// Two-dimensional convolution.
#pragma once

#include "nn/adaptable.h"
#include "nn/linear.h"

#include <optional>

namespace lacuna::nn {

struct Conv2dOptions {
  std::int64_t kernel = 1, stride = 1, padding = 0, groups = 1, dilation = 1;
  bool same = false;  // TensorFlow's padding, by the size of the images, in place of `padding`
  bool bias = true;
  WeightInit init = {};
  bool takes_few_bits = true;  // whether the weight may be in few bits while it is frozen
};

/// Convolution of NHWC images with square kernels: [N, H, W, in] to [N, H', W', out]. weight [out, in / groups, kernel,
/// kernel], bias [out].
class Conv2d final : public Adaptable {
 public:
  Conv2d(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, const Conv2dOptions& options);
  Variable forward(Variable x) const;
  /// Forward without the adapter.
  Variable forward_alone(Variable x) const;
  std::int64_t in() const { return weight_.shape()[1] * groups_; }
  std::int64_t out() const { return weight_.shape()[0]; }
  std::int64_t kernel() const { return weight_.shape()[2]; }
  std::int64_t stride() const { return stride_; }
  std::int64_t padding() const { return padding_; }
  bool same() const { return same_; }
  std::int64_t groups() const { return groups_; }
  std::int64_t dilation() const { return dilation_; }
  const Parameter& weight() const override { return weight_; }

 private:
  std::int64_t stride_, padding_, groups_, dilation_;
  bool same_;
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace lacuna::nn
