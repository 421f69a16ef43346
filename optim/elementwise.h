// The loop of an optimizer that updates each element by itself.
#pragma once

#include "core/parallel.h"
#include "core/tensor.h"

#include <cstddef>
#include <span>
#include <utility>

namespace lacuna {

/// Calls `f(parameter, gradient, state...)` for each element, parameter and states by reference, in one vectorised
/// pass. All tensors f32, of one shape.
template <std::size_t states, class F>
void update_elements(const F& f, const Tensor& parameter, const Tensor& gradient, std::span<const Tensor> state) {
  launch(parameter.device(), [&] {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      const auto pass = [&](float* const p, const float* const g, auto* const... s) {  // each [count]
        parallel_for(
            parameter.count(), 16384,
            [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
              for (std::int64_t i = begin; i < end; ++i) f(p[i], g[i], s[i]...);
            },
            64);
      };
      pass(parameter.data<float>(), gradient.data<float>(), state[k].template data<float>()...);
    }
    (std::make_index_sequence<states>());
  });
}

}  // namespace lacuna
