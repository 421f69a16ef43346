// Measuring, in an ordinary backward pass, what codes of fewer bits would do to the gradient.
#include "autograd/node_tensors.h"
#include "core/parallel.h"

#include <algorithm>

namespace lacuna {
namespace {

/// Σ (a − b)², or Σ a² without b.
double squared_difference(const Tensor& a, const Tensor& b) {
  double sum = 0;
  launch(a.device(), [&] {
    with_float_type(a.dtype(), [&]<class T>(Type<T>) {
      const int parts = threads();
      std::vector<double> partial(static_cast<std::size_t>(parts));
      parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
        const auto range = part(a.count(), index, parts);
        const T *const p = a.data<T>(), *const q = b.defined() ? b.data<T>() : nullptr;
        double own = 0;
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          const double d =
              static_cast<double>(to_compute(p[i])) - (q == nullptr ? 0 : static_cast<double>(to_compute(q[i])));
          own += d * d;
        }
        partial[static_cast<std::size_t>(index)] = own;
      });
      for (const double own : partial) sum += own;
    });
  });
  return sum;
}

}  // namespace

void Tape::probe(Node& node, SensitivityRecord& record) {
  const AllocationScope scope({Purpose::workspace, Label(node.op->name()), node.path});
  const NodeTensors saved(node);
  const auto run = [&] {
    Grads grads(node.edges.size(), node.wanted);
    node.op->backward(node.gradient.clone(), saved, grads);
    return grads;
  };
  std::vector<Slot*> coded;
  for (const SlotPtr& slot : node.saved)
    if (slot) slot->gather_coded(coded);
  const bool has_parameters =
      std::any_of(node.edges.begin(), node.edges.end(), [](const Edge& edge) { return edge.leaf != nullptr; });
  if (coded.empty() && !has_parameters) return;

  Grads exact = run();
  double parameters = 0;
  for (std::size_t i = 0; i < node.edges.size(); ++i)
    if (node.edges[i].leaf) parameters += squared_difference(exact[static_cast<int>(i)], {});
  record.add_gradients(parameters);
  for (Slot* const slot : coded) {
    const int bits = std::min(2, slot->bits() - 1);
    if (bits < 1) continue;
    slot->set_probe(bits);
    Grads coarser = run();
    slot->set_probe(0);
    double change = 0, flow = 0;
    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      const int input = static_cast<int>(i);
      if (!node.wanted.contains(input)) continue;
      const double difference = squared_difference(coarser[input], exact[input]);
      if (node.edges[i].leaf) {
        change += difference;
      } else if (const double square = squared_difference(exact[input], {}); square > 0) {
        flow += difference / square;
      }
    }
    record.add(slot->key(), bits, change, flow);
  }
}

}  // namespace lacuna
