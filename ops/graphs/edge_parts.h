// Nodes of a graph on the CPU, divided among threads by their edges: degrees follow power laws.
#pragma once

#include "core/parallel.h"

#include <cstdint>

namespace lacuna {

/// Calls `f(begin, end)` for ranges of the nodes with about as many edges each, one a thread. starts [nodes + 1]. Each
/// node is summed by one thread, so results do not depend on the number of threads.
template <class F>
void for_nodes_by_edges(const std::int64_t* starts, std::int64_t nodes, std::int64_t width, const F& f) {
  const std::int64_t work = starts[nodes] + nodes;
  const int count = work * width < 16384 ? 1 : threads();
  const auto bound = [&](std::int64_t i) {  // the first node with i / count of the work before it
    const std::int64_t wanted = work * i / count;
    std::int64_t low = 0, high = nodes;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (starts[middle] + middle < wanted)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  const auto share = [&](int i) {
    const std::int64_t begin = bound(i), end = i + 1 == count ? nodes : bound(i + 1);
    if (begin < end) f(begin, end);
  };
  if (count == 1)
    share(0);
  else
    detail::on_threads(count, share);
}

}  // namespace lacuna
