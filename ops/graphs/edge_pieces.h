// The entries of nodes as blocks of threads take them, for .cu files: a node with many entries has several blocks,
// whose sums are added in order. Degrees follow power laws, and one block would be late with a hub.
#pragma once

#include "core/block.h"
#include "ops/graphs/graph_product_cuda.h"

namespace lacuna::cuda {

/// Entries [begin, end) of a node: all of them, or the piece number `piece` of all nodes.
struct Entries {
  std::int64_t node, begin, end, piece;
  LACUNA_DEVICE bool is_piece() const { return piece >= 0; }
};
/// The number of items for entries_of().
inline std::int64_t items_of(const DeviceNeighbours& of) { return of.nodes + of.pieces; }
/// The entries of an item. False: it has none, since the node is long and has pieces, or since there is no such piece.
LACUNA_DEVICE inline bool entries_of(const DeviceNeighbours& of, std::int64_t item, Entries& entries) {
  const bool is_node = item < of.nodes;
  const std::int64_t piece = item - of.nodes, node = is_node ? item : of.piece_nodes[2 * piece];
  if (node < 0) return false;
  entries = {node, of.starts[node], of.starts[node + 1], is_node ? -1 : piece};
  if (is_node) return entries.end - entries.begin <= entries_of_piece;
  entries.begin += of.piece_nodes[2 * piece + 1] * entries_of_piece;
  if (entries.end > entries.begin + entries_of_piece) entries.end = entries.begin + entries_of_piece;
  return true;
}
/// The number of pieces of the node whose first piece is `piece`; 0 for other pieces.
LACUNA_DEVICE inline std::int64_t pieces_from(const DeviceNeighbours& of, std::int64_t piece) {
  const std::int64_t node = of.piece_nodes[2 * piece];
  if (node < 0 || of.piece_nodes[2 * piece + 1] > 0) return 0;
  return (of.starts[node + 1] - of.starts[node] + entries_of_piece - 1) / entries_of_piece;
}

}  // namespace lacuna::cuda
