#include "ops/graphs/graph.h"

#include "core/error.h"
#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/graphs/graph_product_cuda.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

/// i64 [V + 1].
Tensor starts_of(const Tensor& degrees, Device device) {
  const bool planned = device == Device::meta;
  Tensor starts = Tensor::empty({degrees.count() + 1}, DType::i64, planned ? device : Device::cpu, Purpose::data);
  if (planned) return starts;
  auto* const start = starts.data<std::int64_t>();
  const auto* const degree = degrees.data<const std::int32_t>();
  start[0] = 0;
  for (std::int64_t v = 0; v < degrees.count(); ++v) start[v + 1] = start[v] + degree[v];
  return starts;
}

/// The pieces of nodes with many entries, where a cuda device computes: node and number within it, -1 behind the last.
Tensor pieces_of(const EdgeLists& lists, Device device) {
  if (!computes_on_cuda(device)) return {};
  const bool planned = device == Device::meta;
  const std::int64_t most = cuda::most_pieces(lists.nodes.count());
  const Tensor pieces = Tensor::empty({most, 2}, DType::i32, planned ? device : Device::cpu, Purpose::data);
  if (planned) return pieces;
  auto* piece = pieces.data<std::int32_t>();
  std::fill(piece, piece + 2 * most, -1);
  const auto* const degree = lists.degrees.data<const std::int32_t>();
  for (std::int64_t v = 0; v < lists.degrees.count(); ++v)
    for (std::int32_t i = 0; degree[v] > cuda::entries_of_piece && i * cuda::entries_of_piece < degree[v]; ++i) {
      *piece++ = static_cast<std::int32_t>(v);
      *piece++ = i;
    }
  return pieces;
}

/// Refuses lists that contradict each other; on `meta` only their sizes are known.
void check(const EdgeLists& lists, std::string_view what, Device device) {
  const std::int64_t nodes = lists.degrees.count(), edges = lists.nodes.count();
  if (nodes > std::numeric_limits<std::int32_t>::max() || edges > std::numeric_limits<std::int32_t>::max())
    reject("a graph has at most 2^31 - 1 nodes and edges, got {} and {}", nodes, edges);
  if (device == Device::meta) return;
  std::int64_t sum = 0;
  for (std::int64_t v = 0; v < nodes; ++v) {
    const std::int32_t degree = lists.degrees.data<const std::int32_t>()[v];
    if (degree < 0) reject("{} of node {}: expected a number of edges, got {}", what, v, degree);
    sum += degree;
  }
  if (sum != edges) reject("{}: expected numbers that add up to {} edges, got {}", what, edges, sum);
  const auto* const other = lists.nodes.data<const std::int32_t>();
  parallel_for(edges, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e)
      if (other[e] < 0 || other[e] >= nodes) reject("edge {} names node {}, expected 0 to {}", e, other[e], nodes - 1);
  });
}

Tensor scale_of(const Tensor& starts, const Tensor& weights) {
  const std::int64_t nodes = starts.count() - 1;
  Tensor scale = Tensor::empty({nodes}, DType::f32, starts.device(), Purpose::data);
  if (starts.device() == Device::meta) return scale;
  const auto* const start = starts.data<const std::int64_t>();
  const float* const weight = weights.defined() ? weights.data<const float>() : nullptr;
  auto* const out = scale.data<float>();
  for (std::int64_t v = 0; v < nodes; ++v) {
    double sum = 0;
    for (std::int64_t e = start[v]; weight != nullptr && e < start[v + 1]; ++e) sum += weight[e];
    if (weight == nullptr) sum = static_cast<double>(start[v + 1] - start[v]);
    out[v] = sum > 0 ? static_cast<float>(1 / std::sqrt(sum)) : 0;
  }
  return scale;
}

Tensor on(Device device, const Tensor& tensor) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  if (device == Device::meta) return Tensor::empty(tensor.shape(), tensor.dtype(), device, Purpose::data);
  Tensor copy = tensor.to(device);
  copy.set_purpose(Purpose::data);
  return copy;
}

}  // namespace

GraphPtr Graph::make(const EdgeLists& incoming, const EdgeLists& outgoing, const Tensor& weights, Device device) {
  const AllocationScope scope({Purpose::data, Label("graph"), {}});
  check(incoming, "in-degrees", device);
  if (outgoing.nodes.defined()) {
    check(outgoing, "out-degrees", device);
    if (outgoing.degrees.count() != incoming.degrees.count() || outgoing.nodes.count() != incoming.nodes.count())
      reject("outgoing edges: expected {} of {} nodes, got {} of {}", incoming.nodes.count(), incoming.degrees.count(),
             outgoing.nodes.count(), outgoing.degrees.count());
  }
  const std::shared_ptr<Graph> made(new Graph());
  made->nodes_ = incoming.degrees.count();
  const Tensor starts = starts_of(incoming.degrees, device);
  made->incoming_ = {on(device, starts), on(device, incoming.nodes), on(device, pieces_of(incoming, device))};
  made->scale_ = on(device, scale_of(starts, weights));
  made->weights_ = on(device, weights);
  if (outgoing.nodes.defined())
    made->outgoing_ = {on(device, starts_of(outgoing.degrees, device)), on(device, outgoing.nodes),
                       on(device, pieces_of(outgoing, device))};
  made->incoming_on_host_ = incoming;
  made->outgoing_on_host_ = outgoing;
  made->weights_on_host_ = weights;
  return made;
}

const Graph& Graph::at(Device device) const {
  if (device == Device::meta || device == incoming_.nodes.device()) return *this;
  const std::scoped_lock lock(mutex_);
  if (elsewhere_ == nullptr) elsewhere_ = make(incoming_on_host_, outgoing_on_host_, weights_on_host_, device);
  return *elsewhere_;
}

const Tensor& Graph::places() const {
  const std::scoped_lock lock(mutex_);
  if (places_.defined()) return places_;
  const AllocationScope scope({Purpose::data, Label("graph"), {}});
  const Device device = incoming_.nodes.device();
  if (device == Device::meta) return places_ = Tensor::empty({edges()}, DType::i32, device, Purpose::data);
  // Targets ascend within a source's entries, and so do incoming entries with that source.
  const EdgeLists& outgoing = outgoing_on_host_.nodes.defined() ? outgoing_on_host_ : incoming_on_host_;
  const Tensor starts = starts_of(outgoing.degrees, device);
  const auto* const start = starts.data<const std::int64_t>();
  std::vector<std::int64_t> next(start, start + nodes_);
  const Tensor places = Tensor::empty({edges()}, DType::i32, Device::cpu, Purpose::data);
  const auto* const source = incoming_on_host_.nodes.data<const std::int32_t>();
  auto* const place = places.data<std::int32_t>();
  for (std::int64_t e = 0; e < edges(); ++e) {
    std::int64_t& at = next[static_cast<std::size_t>(source[e])];
    if (at >= start[source[e] + 1]) reject("edge {} from node {} has no outgoing entry", e, source[e]);
    place[at++] = static_cast<std::int32_t>(e);
  }
  return places_ = on(device, places);
}

}  // namespace lacuna
