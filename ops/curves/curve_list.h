// The curves that are kernels of one element; for host and device code.
#pragma once

/// Calls `f` for each curve C of ops/formulas.h whose derivative is CBackward.
#define LACUNA_CURVES(f) \
  f(GeluErf) f(GeluTanh) f(Silu) f(QuickGelu) f(Sigmoid) f(Tanh) f(Elu) f(HardSwish) f(HardSigmoid) f(Relu6)
