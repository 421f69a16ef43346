// The curves of a gated activation as formulas; for host and device code.
#pragma once

#include "ops/formulas.h"

#include <type_traits>

namespace lacuna {

/// Calls f(formula, formula of the gradient).
template <class Curve, class F>
void with_gated_curve(Curve curve, const F& f) {
  switch (curve) {
    case Curve::silu:
      return f(formula::Silu{}, formula::SiluBackward{});
    case Curve::gelu:
      return f(formula::GeluErf{}, formula::GeluErfBackward{});
    case Curve::gelu_tanh:
      return f(formula::GeluTanh{}, formula::GeluTanhBackward{});
  }
}

}  // namespace lacuna
