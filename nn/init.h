// Initial values, drawn from the counter: the order of construction does not matter.
#pragma once

#include "nn/module.h"

namespace lacuna::init {

Init constant(double value);
/// Normal with mean 0, cut off at ±2 (absolute, as timm's trunc_normal_ and its default bounds are).
Init truncated_normal(double deviation);
Init normal(double deviation);
/// Uniform in ±bound.
Init uniform(double bound);
/// torch.nn.Linear's and Conv2d's default: uniform in ±1/√fan_in.
Init torch_default(std::int64_t fan_in);
/// Normal with variance 2 / fan_out (He et al. 2015, mode fan_out), for convolutions [O, I/groups, kh, kw].
Init kaiming_normal_fan_out(std::int64_t fan_out);

}  // namespace lacuna::init
