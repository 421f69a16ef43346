// Initial values from counter-based random numbers, independent of the order of construction.
#pragma once

#include "nn/module.h"

namespace lacuna::init {

Init constant(double value);
/// Normal with mean 0, truncated at ±bound (absolute; 2 is the default of timm's trunc_normal_).
Init truncated_normal(double deviation, double bound = 2);
Init normal(double deviation);
/// Uniform in ±bound.
Init uniform(double bound);
/// The default of torch.nn.Linear and Conv2d: uniform in ±1/√fan_in.
Init torch_default(std::int64_t fan_in);
/// Normal with variance 2 / fan_out (He et al. 2015, mode fan_out), for convolutions [O, I/groups, kh, kw].
Init kaiming_normal_fan_out(std::int64_t fan_out);

}  // namespace lacuna::init
