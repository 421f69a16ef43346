// Graphs for the launchers of ops/graphs/*.cu.
#pragma once

#include "ops/graphs/graph.h"
#include "ops/graphs/graph_product_cuda.h"

namespace lacuna {

inline cuda::DeviceNeighbours on_device(const Neighbours& of) {
  return {of.starts.data<const std::int64_t>(), of.nodes.data<const std::int32_t>(), of.starts.count() - 1,
          of.pieces.data<const std::int32_t>(), of.pieces.rows()};
}
/// Null for an undefined tensor.
template <class T>
T* pointer(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}
/// Workspace of `width` elements for each piece; undefined where there are none, as in plans for other devices.
inline Tensor for_pieces(const Neighbours& of, std::int64_t width, DType dtype = DType::f32) {
  if (!of.pieces.defined() || of.pieces.rows() == 0) return {};
  return Tensor::empty({of.pieces.rows(), width}, dtype, of.pieces.device(), Purpose::workspace);
}

}  // namespace lacuna
