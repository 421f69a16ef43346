// The kernels of sums over neighbours.
#pragma once

#include "core/kernel.h"
#include "ops/graphs/graph.h"

namespace lacuna {

/// y[v] = scale[v] · Σ scale[n] · values[places[e]] · x[n] over the entries e of node v, whose other end is n. scale
/// f32 [V], values [E], f32 or f64, and places i32 [E] may be undefined: 1, 1, e. x, y [V, C].
inline constinit Kernel<void(const Neighbours& of, const Tensor& scale, const Tensor& values, const Tensor& places,
                             const Tensor& x, const Tensor& y)>
    graph_product{"graph product"};
/// dvalues[e] = scale[v] · scale[n] · (dy[v] · x[n]), for the entries e of each node v. x, dy [V, C].
inline constinit Kernel<void(const Neighbours& of, const Tensor& scale, const Tensor& x, const Tensor& dy,
                             const Tensor& dvalues)>
    graph_value_gradient{"graph product, gradient of values"};
/// y[v] = Σ x[e] over the entries e of node v. x [E, C], y [V, C].
inline constinit Kernel<void(const Neighbours& of, const Tensor& x, const Tensor& y)> segment_sum{"segment sum"};
/// x[e] = y[v] for the entries e of each node v.
inline constinit Kernel<void(const Neighbours& of, const Tensor& y, const Tensor& x)> segment_spread{"segment spread"};

}  // namespace lacuna
